"""Columns for answers between two members: what each of them has read of the other, because letters may cross."""

VOLLEYS = (
    # The lower number first. `heard_a`: `a` has read something of `b` and not answered it yet; `heard_b` likewise.
    "DROP TRIGGER mail_delivered",
    "ALTER TABLE volleys RENAME COLUMN heard TO heard_a",
    "ALTER TABLE volleys ADD COLUMN heard_b INTEGER NOT NULL DEFAULT 0",
    "UPDATE volleys SET heard_a = heard_a = b, heard_b = heard_a = a",
    """
    CREATE TRIGGER mail_delivered AFTER UPDATE OF delivered_at ON letters WHEN NEW.delivered_at > 0
    BEGIN
        UPDATE mail SET state = 'delivered', delivered_at = NEW.delivered_at
        WHERE letter = NEW.n AND state = 'stored';
        UPDATE volleys SET heard_a = heard_a OR a = mail.reader, heard_b = heard_b OR b = mail.reader FROM mail
        WHERE mail.letter = NEW.n AND a = min(mail.sender, mail.reader) AND b = max(mail.sender, mail.reader);
    END
    """,
)

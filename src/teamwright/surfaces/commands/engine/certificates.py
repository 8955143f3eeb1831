"""Certificates for an engine: its own authority, whose key is thrown away, and one certificate for all of its nodes."""

import datetime
import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.core.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import CertificateBuilder, GeneralName

_YEARS = datetime.timedelta(days=3650)


class Certificates(Struct, frozen=True):
    """In PEM."""

    authority: bytes
    server: bytes
    key: bytes


def make_certificates(hosts: Sequence[str]) -> Certificates:
    try:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415
    except ModuleNotFoundError:
        raise UsageError(
            "--tls needs a package that is not installed: `pip install 'teamwright[cluster]'` adds it."
        ) from None
    root, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Teamwright engine")])
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, hosts[0].strip("[]")[:64])])
    above = x509.SubjectKeyIdentifier.from_public_key(root.public_key())
    authority = _begin(issuer, issuer, root, is_authority=True).add_extension(above, critical=False)
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    server = (
        _begin(subject, issuer, own, is_authority=False)
        .add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
        .add_extension(uses, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(above),
            critical=False,
        )
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return Certificates(
        authority.sign(root, hashes.SHA256()).public_bytes(pem),
        server.sign(root, hashes.SHA256()).public_bytes(pem),
        own.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain),
    )


def _begin(
    subject: object, issuer: object, key: "EllipticCurvePrivateKey", *, is_authority: bool
) -> "CertificateBuilder":
    from cryptography import x509  # noqa: PLC0415

    assert isinstance(subject, x509.Name) and isinstance(issuer, x509.Name)
    now = datetime.datetime.now(datetime.UTC)
    allowed = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    usage = x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority, **allowed
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _YEARS)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )


def _name(host: str) -> "GeneralName":
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)

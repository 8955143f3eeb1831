/* A disk that fails: preloaded, it lets the n-th call that changes something below a directory fail.

   DISK_ROOT    the directory; calls elsewhere pass and do not count
   DISK_COUNT   a file of eight bytes: the counter, shared by all processes of a run
   DISK_LOG     what failed, one line each; and which bytes a failed sync has left in doubt
   DISK_AT      the number of the call that fails; 0 or none: they are only counted
   DISK_ERROR   its errno
   DISK_TIMES   how many calls fail from there on; 0: all of them
   DISK_KINDS   names of the kinds that count, with commas around each: ",write,sync,"

   After a sync that failed, the kernel may drop what was written since the last one that succeeded: reading still shows
   it, the disk does not have it. "doubt FROM TO PATH" notes those bytes, "sure PATH" that a later sync covers them
   because they were written once more or cut off; the checker plays the power cut that brings the loss to light. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 256

struct file {
    dev_t dev;
    ino_t ino;
    off_t safe;           /* the length that the last good sync has covered */
    off_t from, to;       /* dropped, and not written since; empty if from == to */
    off_t again;          /* dropped bytes below this are written anew, and wait for a sync */
};

static const char *root, *log_path, *kinds;
static long at, error_number, times;
static long *counter;
static struct file files[FILES];
static int known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, ...)                                                                                          \
    static type (*real)(__VA_ARGS__);                                                                                  \
    if (!real) real = dlsym(RTLD_NEXT, name)

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *count = getenv("DISK_COUNT");
    const char *where = getenv("DISK_ROOT");
    if (!count || !where) return;
    int fd = syscall(SYS_openat, AT_FDCWD, count, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return;
    counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (counter == MAP_FAILED) return;
    root = where;
    log_path = getenv("DISK_LOG");
    kinds = getenv("DISK_KINDS");
    at = number("DISK_AT");
    error_number = number("DISK_ERROR");
    times = number("DISK_TIMES");
}

static void say(const char *format, ...) {
    char line[PATH_MAX + 100];
    va_list rest;
    va_start(rest, format);
    int length = vsnprintf(line, sizeof line, format, rest);
    va_end(rest);
    int fd = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    syscall(SYS_write, fd, line, length);
    syscall(SYS_close, fd);
}

static int below(const char *path) {
    size_t length = root ? strlen(root) : 0;
    return length && !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

static int path_at(int dir, const char *name, char *path) {
    if (name[0] == '/' || dir == AT_FDCWD) {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        if (!path_of(dir, path)) return 0;
        size_t length = strlen(path);
        snprintf(path + length, PATH_MAX - length, "/%s", name);
    }
    return 1;
}

/* Does this call fail? */
static int fails(const char *kind, const char *path) {
    char wanted[40];
    if (!root || !below(path)) return 0;
    snprintf(wanted, sizeof wanted, ",%s,", kind);
    if (kinds && !strstr(kinds, wanted)) return 0;
    long n = __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
    if (!at || n < at || (times && n >= at + times)) return 0;
    say("failed %ld %s %s\n", n, kind, path);
    errno = error_number;
    return 1;
}

static int fails_fd(const char *kind, int fd) {
    char path[PATH_MAX];
    int before = errno, failed = root && path_of(fd, path) && fails(kind, path);
    if (!failed) errno = before;
    return failed;
}

static int fails_at(const char *kind, int dir, const char *name) {
    char path[PATH_MAX];
    int before = errno, failed = root && name && path_at(dir, name, path) && fails(kind, path);
    if (!failed) errno = before;
    return failed;
}

/* --- what a failed sync leaves in doubt */

static struct file *find(int fd, off_t *size) {
    struct stat found;
    char path[PATH_MAX];
    if (!root || fstat(fd, &found) || !S_ISREG(found.st_mode) || !path_of(fd, path) || !below(path)) return NULL;
    size_t length = strlen(path);
    if (length < 6 || strcmp(path + length - 6, ".jsonl")) return NULL; /* only ever appended to */
    *size = found.st_size;
    for (int i = 0; i < known; i++)
        if (files[i].dev == found.st_dev && files[i].ino == found.st_ino) return &files[i];
    if (known == FILES) return NULL;
    files[known] = (struct file){found.st_dev, found.st_ino, 0, 0, 0, 0};
    return &files[known++];
}

static void tell(int fd, const struct file *file) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return;
    if (file->from < file->to)
        say("doubt %ld %ld %s\n", (long)file->from, (long)file->to, path);
    else
        say("sure %s\n", path);
}

static void note_sync(int fd, int good) {
    off_t size;
    int before = errno;
    pthread_mutex_lock(&lock);
    struct file *file = find(fd, &size);
    if (file && good) {
        file->safe = size;
        if (file->from < file->to && file->again > file->from) {
            file->from = file->again < file->to ? file->again : file->to;
            tell(fd, file);
        }
    } else if (file && file->safe < size) {
        if (file->from == file->to) file->from = file->safe;
        file->to = size;
        file->again = 0;
        tell(fd, file);
    }
    pthread_mutex_unlock(&lock);
    errno = before;
}

/* Written from `from` to `to`: no longer in doubt once it is synced. */
static void note_write(int fd, off_t from, off_t to) {
    off_t size;
    int before = errno;
    pthread_mutex_lock(&lock);
    struct file *file = find(fd, &size);
    if (file && file->from < file->to) {
        if (from < 0) from = size - to, to = size; /* appended: `to` was its length */
        if (from <= (file->again > file->from ? file->again : file->from) && to > file->again) file->again = to;
    }
    pthread_mutex_unlock(&lock);
    errno = before;
}

static void note_cut(int fd, off_t length) {
    off_t size;
    int before = errno;
    pthread_mutex_lock(&lock);
    struct file *file = find(fd, &size);
    if (file) {
        if (file->safe > length) file->safe = length;
        if (file->from < file->to && file->to > length) {
            file->to = length > file->from ? length : file->from;
            tell(fd, file);
        }
    }
    pthread_mutex_unlock(&lock);
    errno = before;
}

/* --- the calls, by both of their names where there are two */

ssize_t write(int fd, const void *data, size_t length) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (fails_fd("write", fd)) return -1;
    ssize_t done = real(fd, data, length);
    if (root && done > 0) note_write(fd, -1, done);
    return done;
}

#define PWRITE(name, offset_type)                                                                                      \
    ssize_t name(int fd, const void *data, size_t length, offset_type offset) {                                        \
        REAL(ssize_t, #name, int, const void *, size_t, offset_type);                                                  \
        if (fails_fd("write", fd)) return -1;                                                                          \
        ssize_t done = real(fd, data, length, offset);                                                                 \
        if (root && done > 0) note_write(fd, offset, offset + done);                                                   \
        return done;                                                                                                   \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int many) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (fails_fd("write", fd)) return -1;
    ssize_t done = real(fd, parts, many);
    if (root && done > 0) note_write(fd, -1, done);
    return done;
}

#define SYNC(name)                                                                                                     \
    int name(int fd) {                                                                                                 \
        REAL(int, #name, int);                                                                                         \
        int failed = fails_fd("sync", fd), done = failed ? -1 : real(fd);                                              \
        if (root) note_sync(fd, !failed && !done);                                                                     \
        return done;                                                                                                   \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, offset_type)                                                                                    \
    int name(int fd, offset_type length) {                                                                             \
        REAL(int, #name, int, offset_type);                                                                            \
        if (fails_fd("truncate", fd)) return -1;                                                                       \
        int done = real(fd, length);                                                                                   \
        if (root && !done) note_cut(fd, length);                                                                       \
        return done;                                                                                                   \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define MODE                                                                                                           \
    int mode = 0;                                                                                                      \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                                                             \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, int);                                                                                      \
        va_end(rest);                                                                                                  \
    }
#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        REAL(int, #name, const char *, int, ...);                                                                      \
        MODE return fails_at("open", AT_FDCWD, path) ? -1 : real(path, flags, mode);                                   \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                   \
    int name(int dir, const char *path, int flags, ...) {                                                              \
        REAL(int, #name, int, const char *, int, ...);                                                                 \
        MODE return fails_at("open", dir, path) ? -1 : real(dir, path, flags, mode);                                   \
    }
OPENAT(openat)
OPENAT(openat64)

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return fails_at("rename", AT_FDCWD, to) ? -1 : real(from, to);
}

int renameat(int from_dir, const char *from, int dir, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    return fails_at("rename", dir, to) ? -1 : real(from_dir, from, dir, to);
}

int renameat2(int from_dir, const char *from, int dir, const char *to, unsigned flags) {
    REAL(int, "renameat2", int, const char *, int, const char *, unsigned);
    return fails_at("rename", dir, to) ? -1 : real(from_dir, from, dir, to, flags);
}

int link(const char *from, const char *to) {
    REAL(int, "link", const char *, const char *);
    return fails_at("link", AT_FDCWD, to) ? -1 : real(from, to);
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    return fails_at("unlink", AT_FDCWD, path) ? -1 : real(path);
}

int unlinkat(int dir, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    return fails_at("unlink", dir, path) ? -1 : real(dir, path, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return fails_at("mkdir", AT_FDCWD, path) ? -1 : real(path, mode);
}

int mkdirat(int dir, const char *path, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    return fails_at("mkdir", dir, path) ? -1 : real(dir, path, mode);
}

// Preloaded: makes the k-th call of some kind on files below a directory fail, or do only a part of what it was asked.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static char below[PATH_MAX];
static char wanted[32];
static long countdown = -1;  // calls until the one that fails; -1: none does
static int error = 0;        // 0: it does only a part
static _Atomic long calls;

void arm(const char* directory, const char* kind, long k, int with) {
  strcpy(below, directory);
  strcpy(wanted, kind);
  calls = 0;
  error = with;
  countdown = k;
}

long calls_since(void) { return calls; }

static int is_below(const char* path) { return path != NULL && strncmp(path, below, strlen(below)) == 0; }

static int is_ours(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return is_below(path);
}

// Whether this call is the one.
static int fails(const char* kind, int counts) {
  if (below[0] == 0 || strcmp(kind, wanted) != 0 || !counts) return 0;
  return ++calls == countdown;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define TRANSFER(name, kind, constness, ...)                                 \
  if (fails(kind, is_ours(fd))) {                                            \
    if (error == 0) return REAL(name)(fd, buffer, size > 1 ? size / 2 : size, ##__VA_ARGS__); \
    errno = error;                                                           \
    return -1;                                                               \
  }                                                                          \
  return REAL(name)(fd, buffer, size, ##__VA_ARGS__);

ssize_t read(int fd, void* buffer, size_t size) { TRANSFER(read, "read", ) }
ssize_t pread(int fd, void* buffer, size_t size, off_t at) { TRANSFER(pread, "read", , at) }
ssize_t pread64(int fd, void* buffer, size_t size, off64_t at) { TRANSFER(pread64, "read", , at) }
ssize_t write(int fd, const void* buffer, size_t size) { TRANSFER(write, "write", ) }
ssize_t pwrite(int fd, const void* buffer, size_t size, off_t at) { TRANSFER(pwrite, "write", , at) }
ssize_t pwrite64(int fd, const void* buffer, size_t size, off64_t at) { TRANSFER(pwrite64, "write", , at) }

#define FAIL(kind, counts)   \
  if (fails(kind, counts)) { \
    errno = error;           \
    return -1;               \
  }

int fsync(int fd) {
  FAIL("fsync", is_ours(fd))
  return REAL(fsync)(fd);
}

int rename(const char* from, const char* to) {
  FAIL("rename", is_below(to))
  return REAL(rename)(from, to);
}

int renameat(int a, const char* from, int b, const char* to) {
  FAIL("rename", is_below(to))
  return REAL(renameat)(a, from, b, to);
}

int linkat(int a, const char* from, int b, const char* to, int flags) {
  FAIL("link", is_below(to))
  return REAL(linkat)(a, from, b, to, flags);
}

int fchmod(int fd, mode_t mode) {
  FAIL("chmod", is_ours(fd))
  return REAL(fchmod)(fd, mode);
}

static mode_t mode_of(int flags, va_list more) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
}

#define OPEN(name, before, path, ...)       \
  va_list more;                             \
  va_start(more, flags);                    \
  const mode_t mode = mode_of(flags, more); \
  va_end(more);                             \
  FAIL("open", is_below(path))              \
  return REAL(name)(__VA_ARGS__, flags, mode);

int open(const char* path, int flags, ...) { OPEN(open, , path, path) }
int open64(const char* path, int flags, ...) { OPEN(open64, , path, path) }
int openat(int at, const char* path, int flags, ...) { OPEN(openat, , path, at, path) }
int openat64(int at, const char* path, int flags, ...) { OPEN(openat64, , path, at, path) }

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fails("mmap", fd >= 0 && is_ours(fd))) {
    errno = error;
    return MAP_FAILED;
  }
  return REAL(mmap)(at, size, protection, flags, fd, offset);
}

void* mmap64(void* at, size_t size, int protection, int flags, int fd, off64_t offset) {
  if (fails("mmap", fd >= 0 && is_ours(fd))) {
    errno = error;
    return MAP_FAILED;
  }
  return REAL(mmap64)(at, size, protection, flags, fd, offset);
}

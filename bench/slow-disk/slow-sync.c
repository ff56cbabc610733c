/*
 * Preloaded into a program (LD_PRELOAD), lets each of its syncs take DELAY_MS longer, as on a disk that is slow to
 * confirm. The sync itself is done.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void delay(void) {
  struct timespec left = {DELAY_MS / 1000, DELAY_MS % 1000 * 1000000L};
  while (nanosleep(&left, &left) != 0) {
  }
}

int fsync(int descriptor) {
  delay();
  return syscall(SYS_fsync, descriptor);
}

int fdatasync(int descriptor) {
  delay();
  return syscall(SYS_fdatasync, descriptor);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times a few system calls by its own CPU time and prints "name nanoseconds" for each. Run inside
 * a box and on the host alike: static, and writes nothing but one file in its working directory
 * (or in the directory named).
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_NAME "loops.tmp"
#define BLOCK 4096

static int file = -1;

static int do_getppid(void)
{
    return syscall(SYS_getppid) < 0 ? -1 : 0;
}

static int do_pread(void)
{
    char block[BLOCK];

    return pread(file, block, sizeof(block), 0) == BLOCK ? 0 : -1;
}

static int do_stat(void)
{
    struct stat st;

    return stat(FILE_NAME, &st);
}

static int do_fork(void)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

static const struct {
    const char *name;
    int (*run)(void);
    int times;
} loops[] = {
    {"getppid", do_getppid, 200000},
    {"pread", do_pread, 50000},
    {"stat", do_stat, 30000},
    {"fork", do_fork, 200},
};

/* Of this process and of its children that have ended. */
static double cpu_ns(void)
{
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    struct rusage u;
    double sum = 0;

    for (size_t i = 0; i < sizeof(whose) / sizeof(whose[0]); i++) {
        (void)getrusage(whose[i], &u);
        sum += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 +
               (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
    }
    return sum;
}

int main(int argc, char **argv)
{
    static const char block[BLOCK] = "x";

    if (argc > 1 && chdir(argv[1]) < 0) {
        perror(argv[1]);
        return 1;
    }
    file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, block, sizeof(block)) != (ssize_t)sizeof(block)) {
        perror(FILE_NAME);
        return 1;
    }
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        double begun = cpu_ns();
        for (int n = 0; n < loops[i].times; n++) {
            if (loops[i].run() < 0) {
                perror(loops[i].name);
                return 1;
            }
        }
        printf("%s %.1f\n", loops[i].name, (cpu_ns() - begun) / loops[i].times);
    }
    (void)unlink(FILE_NAME);
    return 0;
}

// A network with faults for processes on one machine: each host is a namespace, and this program is the switch between
// them. Commands on standard input decide which packets it passes on, delays or drops:
//
//   link A B DELAY JITTER LOSS   milliseconds, milliseconds, and packets in a thousand, in both directions
//   cut A B                      no packet passes between the two
//   heal                         every packet passes at once
//
// usage: network SEED PREFIX HOST…   as root; PREFIX: the first three numbers of the addresses. The first host is this
// program's own namespace. It prints a line for each host: its name, its address, and the file of its namespace
// (`nsenter --net=FILE`); then "ok" for each command. At the end of standard input it exits, and the network is gone.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { host_limit = 8, packet_limit = 2048, queue_limit = 8192 };

typedef struct {
  double delay, jitter;
  int loss, is_cut;
  /// The time at which the last packet leaves, so that no packet overtakes another.
  double last;
} wire;

typedef struct {
  double due;
  int to, count;
  unsigned char bytes[packet_limit];
} packet;

static struct {
  char name[32];
  int device, space;
} hosts[host_limit];
static int host_count;
static wire wires[host_limit][host_limit];
/// Packets in the order of their departure.
static packet *queue[queue_limit];
static int queue_count;
static unsigned long long state;

static void fail(const char *what) {
  fprintf(stderr, "network: %s: %s\n", what, strerror(errno));
  exit(1);
}

static unsigned random_below(unsigned limit) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)(state >> 33) % limit;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

// MARK: Hosts

static void bring_up(int control, const char *name, const char *address) {
  struct ifreq request;
  memset(&request, 0, sizeof request);
  snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
  if (address) {
    struct sockaddr_in *place = (struct sockaddr_in *)&request.ifr_addr;
    place->sin_family = AF_INET;
    inet_pton(AF_INET, address, &place->sin_addr);
    if (ioctl(control, SIOCSIFADDR, &request) != 0) fail("SIOCSIFADDR");
    inet_pton(AF_INET, "255.255.255.0", &place->sin_addr);
    if (ioctl(control, SIOCSIFNETMASK, &request) != 0) fail("SIOCSIFNETMASK");
  }
  if (ioctl(control, SIOCGIFFLAGS, &request) != 0) fail("SIOCGIFFLAGS");
  request.ifr_flags |= IFF_UP;
  if (ioctl(control, SIOCSIFFLAGS, &request) != 0) fail("SIOCSIFFLAGS");
}

static void add_host(const char *name, const char *prefix) {
  int number = host_count++;
  snprintf(hosts[number].name, sizeof hosts[number].name, "%s", name);
  if (number > 0 && unshare(CLONE_NEWNET) != 0) fail("unshare");
  hosts[number].space = open("/proc/self/ns/net", O_RDONLY);
  int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  if (hosts[number].space < 0 || device < 0) fail("/dev/net/tun");
  struct ifreq request;
  memset(&request, 0, sizeof request);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (number > 0) snprintf(request.ifr_name, IFNAMSIZ, "aquifer");
  else snprintf(request.ifr_name, IFNAMSIZ, "aq%d", getpid());
  if (ioctl(device, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
  char address[32];
  snprintf(address, sizeof address, "%s.%d", prefix, number + 1);
  int control = socket(AF_INET, SOCK_DGRAM, 0);
  if (number > 0) bring_up(control, "lo", NULL);
  bring_up(control, request.ifr_name, address);
  close(control);
  hosts[number].device = device;
  printf("%s %s /proc/%d/fd/%d\n", name, address, getpid(), hosts[number].space);
}

static int host_named(const char *name) {
  for (int number = 0; number < host_count; number++)
    if (strcmp(hosts[number].name, name) == 0) return number;
  errno = ENOENT;
  fail(name);
  return -1;
}

// MARK: Packets

static void deliver(packet *packet) {
  // A packet that the host has no room for is lost, as on any network.
  if (write(hosts[packet->to].device, packet->bytes, (size_t)packet->count) < 0 && errno != EAGAIN && errno != EIO && errno != EINVAL) fail("write");
  free(packet);
}

static void deliver_due(void) {
  int count = 0;
  double time = now();
  while (count < queue_count && queue[count]->due <= time) deliver(queue[count++]);
  memmove(queue, queue + count, (size_t)(queue_count - count) * sizeof *queue);
  queue_count -= count;
}

static void take(int from) {
  packet *taken = malloc(sizeof *taken);
  if (!taken) fail("malloc");
  ssize_t count = read(hosts[from].device, taken->bytes, packet_limit);
  taken->count = (int)count;
  // The last number of the destination address selects the host; packets other than IPv4 are dropped.
  taken->to = count >= 20 && taken->bytes[0] >> 4 == 4 ? taken->bytes[19] - 1 : -1;
  wire *wire = taken->to >= 0 && taken->to < host_count ? &wires[from][taken->to] : NULL;
  if (!wire || wire->is_cut || queue_count == queue_limit || (int)random_below(1000) < wire->loss) {
    free(taken);
    return;
  }
  taken->due = now() + wire->delay + wire->jitter * random_below(1000) / 1000;
  if (taken->due < wire->last) taken->due = wire->last;
  wire->last = taken->due;
  int place = queue_count++;
  for (; place > 0 && queue[place - 1]->due > taken->due; place--) queue[place] = queue[place - 1];
  queue[place] = taken;
}

// MARK: Commands

static void obey(const char *line) {
  char one[32], other[32];
  wire wire = {0};
  if (strncmp(line, "heal", 4) == 0) {
    memset(wires, 0, sizeof wires);
  } else if (sscanf(line, "cut %31s %31s", one, other) == 2) {
    wires[host_named(one)][host_named(other)].is_cut = wires[host_named(other)][host_named(one)].is_cut = 1;
  } else if (sscanf(line, "link %31s %31s %lf %lf %d", one, other, &wire.delay, &wire.jitter, &wire.loss) == 5) {
    wires[host_named(one)][host_named(other)] = wires[host_named(other)][host_named(one)] = wire;
  } else {
    errno = EINVAL;
    fail(line);
  }
  puts("ok");
}

int main(int count, char **words) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (count < 4 || count > 3 + host_limit) return 64;
  state = strtoull(words[1], NULL, 10);
  for (int index = 3; index < count; index++) add_host(words[index], words[2]);
  char line[256];
  int length = 0;
  for (;;) {
    struct pollfd files[host_limit + 1];
    for (int number = 0; number < host_count; number++) files[number] = (struct pollfd){.fd = hosts[number].device, .events = POLLIN};
    files[host_count] = (struct pollfd){.fd = 0, .events = POLLIN};
    struct timespec wait = {.tv_sec = 3600};
    if (queue_count > 0) {
      double left = queue[0]->due - now();
      if (left < 0) left = 0;
      wait = (struct timespec){.tv_sec = (time_t)(left / 1e3), .tv_nsec = (long)((left - 1e3 * (double)(time_t)(left / 1e3)) * 1e6)};
    }
    if (ppoll(files, (nfds_t)host_count + 1, &wait, NULL) < 0 && errno != EINTR) fail("poll");
    for (int number = 0; number < host_count; number++)
      if (files[number].revents) take(number);
    deliver_due();
    if (!files[host_count].revents) continue;
    ssize_t got = read(0, line + length, sizeof line - 1 - (size_t)length);
    if (got <= 0) return 0;
    length += (int)got;
    line[length] = 0;
    for (char *end; (end = strchr(line, '\n')) != NULL;) {
      *end = 0;
      obey(line);
      length -= (int)(end + 1 - line);
      memmove(line, end + 1, (size_t)length + 1);
    }
  }
}

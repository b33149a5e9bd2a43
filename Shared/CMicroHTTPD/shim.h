#ifndef CMICROHTTPD_SHIM_H
#define CMICROHTTPD_SHIM_H

#include <microhttpd.h>

/* Swift imports neither variadic functions nor unions well: starting a daemon and asking a connection go through these. */

struct aquifer_mhd_options {
  int listen_fd;
  unsigned int connection_limit;
  unsigned int idle_seconds;
  unsigned int thread_count;
  size_t connection_memory;
};

typedef void *(*aquifer_mhd_uri_callback) (void *cls, const char *uri, struct MHD_Connection *connection);
typedef size_t (*aquifer_mhd_unescape_callback) (void *cls, struct MHD_Connection *connection, char *text);

static inline struct MHD_Daemon *
aquifer_mhd_start (const struct aquifer_mhd_options *options, void *cls, MHD_AccessHandlerCallback access, MHD_RequestCompletedCallback completed,
                   MHD_NotifyConnectionCallback connection, aquifer_mhd_uri_callback uri, aquifer_mhd_unescape_callback unescape)
{
  unsigned int pool = options->thread_count > 1 ? options->thread_count : 0;
  return MHD_start_daemon (MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, access, cls,
                           MHD_OPTION_LISTEN_SOCKET, options->listen_fd,
                           MHD_OPTION_CONNECTION_LIMIT, options->connection_limit,
                           MHD_OPTION_CONNECTION_TIMEOUT, options->idle_seconds,
                           MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->connection_memory,
                           MHD_OPTION_THREAD_POOL_SIZE, pool,
                           MHD_OPTION_STRICT_FOR_CLIENT, 1,
                           MHD_OPTION_NOTIFY_COMPLETED, completed, cls,
                           MHD_OPTION_NOTIFY_CONNECTION, connection, cls,
                           MHD_OPTION_URI_LOG_CALLBACK, uri, cls,
                           MHD_OPTION_UNESCAPE_CALLBACK, unescape, cls,
                           MHD_OPTION_END);
}

static inline int
aquifer_mhd_fd (struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

static inline const struct sockaddr *
aquifer_mhd_peer_address (struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  return info ? info->client_addr : NULL;
}

static inline void *
aquifer_mhd_socket_context (struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

#endif

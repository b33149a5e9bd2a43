#ifndef CMICROHTTPD_SHIM_H
#define CMICROHTTPD_SHIM_H

#include <microhttpd.h>
/* The library's TLS: it takes certificates as GnuTLS objects. */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <gnutls/abstract.h>

/* Swift does not import variadic functions, and unions are awkward there: these functions start a daemon and query a
   connection. */

struct aquifer_mhd_options {
  int listen_fd;
  unsigned int connection_limit;
  unsigned int idle_seconds;
  unsigned int thread_count;
  size_t connection_memory;
  /* NULL for plain HTTP. */
  gnutls_certificate_retrieve_function2 *certificate;
};

typedef void *(*aquifer_mhd_uri_callback) (void *cls, const char *uri, struct MHD_Connection *connection);
typedef size_t (*aquifer_mhd_unescape_callback) (void *cls, struct MHD_Connection *connection, char *text);

static inline struct MHD_Daemon *
aquifer_mhd_start (const struct aquifer_mhd_options *options, void *cls, MHD_AcceptPolicyCallback accept, MHD_AccessHandlerCallback access,
                   MHD_RequestCompletedCallback completed, MHD_NotifyConnectionCallback connection, aquifer_mhd_uri_callback uri,
                   aquifer_mhd_unescape_callback unescape)
{
  unsigned int pool = options->thread_count > 1 ? options->thread_count : 0;
  unsigned int flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
  struct MHD_OptionItem tls[] = {
    { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE" },
    { MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *) options->certificate },
    { MHD_OPTION_END, 0, NULL }
  };
  if (options->certificate)
    flags |= MHD_USE_TLS;
  else
    tls[0].option = MHD_OPTION_END;
  return MHD_start_daemon (flags, 0, accept, cls, access, cls,
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
                           MHD_OPTION_ARRAY, tls,
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

/* The library stores its connection in the session's pointer. */
static inline struct MHD_Connection *
aquifer_mhd_connection_of_session (gnutls_session_t session)
{
  return (struct MHD_Connection *) gnutls_session_get_ptr (session);
}

#endif

#ifndef CCURL_SHIM_H
#define CCURL_SHIM_H

#include <curl/curl.h>
#include <stdbool.h>

// Swift does not import variadic functions. The parentheses around names keep libcurl's type-checking macros away.

static inline CURLcode ccurl_set_long(CURL *_Nonnull handle, CURLoption option, long value) { return (curl_easy_setopt)(handle, option, value); }
static inline CURLcode ccurl_set_offset(CURL *_Nonnull handle, CURLoption option, curl_off_t value) { return (curl_easy_setopt)(handle, option, value); }
/// For values that libcurl copies at once, such as a URL.
static inline CURLcode ccurl_set_string(CURL *_Nonnull handle, CURLoption option, const char *_Nonnull value) {
  return (curl_easy_setopt)(handle, option, value);
}
static inline CURLcode ccurl_set_pointer(CURL *_Nonnull handle, CURLoption option, const void *_Nullable value) {
  return (curl_easy_setopt)(handle, option, value);
}

typedef size_t (*ccurl_receiver)(char *_Nullable bytes, size_t size, size_t count, void *_Nullable context);
static inline CURLcode ccurl_set_receiver(CURL *_Nonnull handle, CURLoption option, ccurl_receiver _Nonnull receiver) {
  return (curl_easy_setopt)(handle, option, receiver);
}

typedef curl_socket_t (*ccurl_opener)(void *_Nullable context, curlsocktype purpose, struct curl_sockaddr *_Nonnull address);
static inline CURLcode ccurl_set_opener(CURL *_Nonnull handle, ccurl_opener _Nonnull opener) {
  return (curl_easy_setopt)(handle, CURLOPT_OPENSOCKETFUNCTION, opener);
}

typedef int (*ccurl_watcher)(void *_Nullable context, curl_off_t toRead, curl_off_t read, curl_off_t toSend, curl_off_t sent);
static inline void ccurl_set_watcher(CURL *_Nonnull handle, ccurl_watcher _Nonnull watcher, const void *_Nonnull context) {
  (curl_easy_setopt)(handle, CURLOPT_XFERINFOFUNCTION, watcher);
  (curl_easy_setopt)(handle, CURLOPT_XFERINFODATA, context);
  (curl_easy_setopt)(handle, CURLOPT_NOPROGRESS, 0L);
}

typedef int (*ccurl_listener)(CURL *_Nullable handle, curl_infotype kind, char *_Nullable bytes, size_t count, void *_Nullable context);
/// The listener hears all that is said on the connection, credentials included.
static inline void ccurl_set_listener(CURL *_Nonnull handle, ccurl_listener _Nonnull listener, const void *_Nonnull context) {
  (curl_easy_setopt)(handle, CURLOPT_DEBUGFUNCTION, listener);
  (curl_easy_setopt)(handle, CURLOPT_DEBUGDATA, context);
  (curl_easy_setopt)(handle, CURLOPT_VERBOSE, 1L);
}

static inline void *_Nullable ccurl_private(CURL *_Nonnull handle) {
  char *value = NULL;
  (curl_easy_getinfo)(handle, CURLINFO_PRIVATE, &value);
  return value;
}

/// The last code of the server's; 0 without one.
static inline long ccurl_response_code(CURL *_Nonnull handle) {
  long code = 0;
  (curl_easy_getinfo)(handle, CURLINFO_RESPONSE_CODE, &code);
  return code;
}

/// True if any byte of the request was written to a connection.
static inline bool ccurl_was_sent(CURL *_Nonnull handle) {
  long size = 0;
  (curl_easy_getinfo)(handle, CURLINFO_REQUEST_SIZE, &size);
  return size > 0;
}

/// The next finished transfer, with its result from the union in libcurl's message; NULL if there is none.
static inline CURL *_Nullable ccurl_next_finished(CURLM *_Nonnull multi, CURLcode *_Nonnull result) {
  int left = 0;
  CURLMsg *message;
  while ((message = curl_multi_info_read(multi, &left)) != NULL) {
    if (message->msg == CURLMSG_DONE) {
      *result = message->data.result;
      return message->easy_handle;
    }
  }
  return NULL;
}

#endif

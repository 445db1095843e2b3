/* talon.h: policies for Talon in C. One header, no libc, no allocation in a
 * decision. The guide is docs/how-to-write-a-policy-in-c.md, the ABI is
 * docs/reference-abi.md, the messages are sdk/abi/talon.proto.
 *
 *	#include "talon.h"
 *
 *	static talon_configured configure(const talon_config *config) { ... }
 *	static talon_verdict admit(const talon_admit *in) { ... }
 *
 *	TALON_POLICY("manifest.json", configure)
 *	TALON_ADMIT(admit)
 *
 * Build it with
 *
 *	clang --target=wasm32 -O2 -ffreestanding -mbulk-memory -I path/to/sdk/c -c -o policy.o policy.c
 *	wasm-ld --no-entry --stack-first --strip-all -o policy.wasm policy.o
 *
 * Include it in one source file of a module: it defines the module's exports.
 *
 * Invariants:
 *
 *  1. Readers stay within the bytes and end, for any bytes.
 *  2. The values of a request are views of it, valid until the function returns.
 *     Answers of the store are in the buffer of the policy.
 *  3. talon_keep and larger requests take memory, and never give it back.
 *     All requests together take less than four times the largest.
 *  4. A module imports only the host functions that its code calls.
 */
#ifndef TALON_H
#define TALON_H

/* The version of the SDK, which a module carries. */
#define TALON_SDK "0.9.0"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function of its own: it is in the module once. */
#define TALON_APART static __attribute__((noinline, unused))

/* Text, or bytes. It does not end with a zero. */
typedef struct {
	const char *at;
	uint32_t len;
} talon_text;

/* TALON_TEXT is the text of a string literal. */
#define TALON_TEXT(literal) ((talon_text){"" literal, sizeof(literal) - 1})

static inline bool talon_same(talon_text a, talon_text b) {
	if (a.len != b.len)
		return false;
	for (uint32_t i = 0; i < a.len; i++)
		if (a.at[i] != b.at[i])
			return false;
	return true;
}

static inline talon_text talon_bytes(const void *at, uint32_t len) { return (talon_text){(const char *)at, len}; }

TALON_APART talon_text talon_string(const char *s) {
	uint32_t n = 0;
	while (s[n] != 0)
		n++;
	return talon_bytes(s, n);
}

/* A public key or an id is 32 bytes. */
static inline bool talon_same_key(const uint8_t *a, const uint8_t *b) {
	for (int i = 0; i < 32; i += 8) {
		uint64_t x, y;
		__builtin_memcpy(&x, a + i, 8);
		__builtin_memcpy(&y, b + i, 8);
		if (x != y)
			return false;
	}
	return true;
}

/* ---- Verdicts ---- */

/* What follows is generated from talon.proto by internal/abigen. */
/* Action */

/* The answer of a policy to an event, a query, a connection or a push. */
enum {
	TALON_ACTION_PASS = 0, /* no opinion: the next policy of the chain decides */
	TALON_ACTION_ACCEPT = 1, /* allow it; store the event */
	TALON_ACTION_REJECT = 2, /* refuse it, with a reason */
	TALON_ACTION_SHADOW_REJECT = 3, /* event: answer OK true, do not store; query: answer as if nothing were here */
	TALON_ACTION_HOLD = 4, /* event: keep it in purgatory */
	TALON_ACTION_REQUIRE_AUTH = 5, /* event, query: refuse it until the client authenticates (NIP-42) */
	TALON_ACTION_RESTRICT = 6, /* audience: only the readers that the verdict names receive the event */
};

/* That was generated. */

/* A verdict has the code of the rule that decided (a-z 0-9 - . _, at most 64
 * bytes), for metrics, and the answer to the client, "prefix: text" in UTF-8. The
 * host cuts a longer answer to 1 KiB. */
typedef struct {
	uint32_t action;
	talon_text rule, prefix, text;
	uint32_t retry; /* seconds, see talon_retry_for */
	talon_text keys, set; /* see talon_only_keys and talon_only_members */
	talon_text wake; /* an encoded filter, see talon_awaiting */
	uint32_t wait; /* seconds, see talon_awaiting */
	bool end; /* see talon_ending */
	int64_t max_author_bytes, max_repository_bytes; /* see talon_within */
} talon_verdict;

/* No opinion: the next policy decides. */
static inline talon_verdict talon_pass(void) { return (talon_verdict){0}; }

/* Store it, or allow it. */
static inline talon_verdict talon_accept(const char *rule) {
	return (talon_verdict){.action = TALON_ACTION_ACCEPT, .rule = talon_string(rule)};
}

/* Refuse it. The prefix is blocked, invalid, pow, rate-limited, restricted, mute,
 * error or duplicate. */
static inline talon_verdict talon_reject(const char *rule, const char *prefix, talon_text text) {
	return (talon_verdict){.action = TALON_ACTION_REJECT, .rule = talon_string(rule), .prefix = talon_string(prefix), .text = text};
}

/* Refuse it, and tell the client that it was stored. */
static inline talon_verdict talon_shadow_reject(const char *rule) {
	return (talon_verdict){.action = TALON_ACTION_SHADOW_REJECT, .rule = talon_string(rule)};
}

/* Keep an event in purgatory. */
static inline talon_verdict talon_hold(const char *rule, talon_text text) {
	return (talon_verdict){.action = TALON_ACTION_HOLD, .rule = talon_string(rule), .prefix = TALON_TEXT("purgatory"), .text = text};
}

/* Refuse it until the client authenticates (NIP-42). */
/* Who receives an event, the answer of TALON_AUDIENCE: everybody (talon_pass), clients that
 * prove one of the keys (32 bytes each, one after the other, at most 1,000), members of a set
 * of the module, or nobody. */
static inline talon_verdict talon_only_keys(const char *rule, talon_text keys) {
	return (talon_verdict){.action = TALON_ACTION_RESTRICT, .rule = talon_string(rule), .keys = keys};
}
static inline talon_verdict talon_only_members(const char *rule, const char *set) {
	return (talon_verdict){.action = TALON_ACTION_RESTRICT, .rule = talon_string(rule), .set = talon_string(set)};
}
static inline talon_verdict talon_nobody(const char *rule) {
	return (talon_verdict){.action = TALON_ACTION_RESTRICT, .rule = talon_string(rule)};
}

static inline talon_verdict talon_require_auth(const char *rule, talon_text text) {
	return (talon_verdict){.action = TALON_ACTION_REQUIRE_AUTH, .rule = talon_string(rule), .prefix = TALON_TEXT("auth-required"), .text = text};
}

/* Have the host decide about a refused event once more when another of its author is
 * accepted within so many seconds, at most 60. The client is answered at once. */
static inline talon_verdict talon_retry_for(talon_verdict v, uint32_t seconds) {
	v.retry = seconds;
	return v;
}

/* Have a held event wait for another event that the filter matches (talon_asked): one that is
 * stored or held later. The filter has ids, authors or tags, and at most 4 KiB as JSON. Its memory
 * stays unchanged until the host has the answer. The host then decides about the held event again,
 * with all policies. It may do that at other times too. It holds the event for so many seconds, at
 * most 30 days; 0 is 7 days. */
static inline talon_verdict talon_awaiting(talon_verdict v, talon_text filter, uint32_t seconds) {
	v.wake = filter;
	v.wait = seconds;
	return v;
}

/* Have the host refuse the event or the push if the author would then have more than so many
 * bytes of events and git data, or the repository of a push more bytes of git data. The author
 * of a push is the owner of the repository. 0 is no limit. */
static inline talon_verdict talon_within(talon_verdict v, int64_t author, int64_t repository) {
	v.max_author_bytes = author;
	v.max_repository_bytes = repository;
	return v;
}

/* Have the host end the connection after it has answered: an event or a query of a client. */
static inline talon_verdict talon_ending(talon_verdict v) {
	v.end = true;
	return v;
}

/* ---- Text that is put together ---- */

/* A line is text that grows up to 1 KiB. It leaves out the rest. Make it static if
 * a verdict holds it: TALON_LINE(NAME). */
typedef struct {
	uint32_t len;
	char at[1024];
} talon_line;

TALON_APART talon_line *talon_add(talon_line *l, talon_text t) {
	if (t.len > 0 && t.len <= sizeof l->at - l->len) {
		__builtin_memcpy(l->at + l->len, t.at, t.len);
		l->len += t.len;
	}
	return l;
}

static inline talon_line *talon_add_string(talon_line *l, const char *s) { return talon_add(l, talon_string(s)); }

static inline talon_line *talon_add_int(talon_line *l, int64_t n) {
	char digits[20];
	uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
	uint32_t at = sizeof digits;
	do {
		digits[--at] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest > 0);
	if (n < 0)
		digits[--at] = '-';
	return talon_add(l, talon_bytes(digits + at, sizeof digits - at));
}

static inline talon_text talon_line_text(const talon_line *l) { return talon_bytes(l->at, l->len); }

/* ---- The wire: protobuf, read in place ---- */

/* A reader walks the fields of a message. After talon_next has returned true, key
 * is the field's number and wire type, num the value of a number and data that of
 * any other. bad says that the walk ended before the bytes did. */
typedef struct {
	const uint8_t *at, *end;
	uint64_t num;
	talon_text data;
	uint32_t key;
	bool bad;
} talon_reader;

#define TALON_NUMBER(field) ((uint32_t)(field) << 3)
#define TALON_DATA(field) ((uint32_t)(field) << 3 | 2)

static inline talon_reader talon_read(talon_text message) {
	talon_reader r = {0};
	r.at = (const uint8_t *)message.at;
	r.end = r.at + message.len;
	return r;
}

TALON_APART bool talon_varint_long(talon_reader *r, uint64_t *v) {
	uint64_t n = 0;
	for (uint32_t i = 0; i < 10 && r->at < r->end; i++) {
		uint8_t c = *r->at++;
		if (i == 9 && c > 1)
			break;
		n |= (uint64_t)(c & 0x7f) << (7 * i);
		if (c < 0x80) {
			*v = n;
			return true;
		}
	}
	return false;
}

static inline bool talon_varint(talon_reader *r, uint64_t *v) {
	if (r->at < r->end && *r->at < 0x80) {
		*v = *r->at++;
		return true;
	}
	return talon_varint_long(r, v);
}

TALON_APART bool talon_fixed(talon_reader *r, uint32_t size) {
	if (size > (size_t)(r->end - r->at))
		return false;
	r->num = 0;
	for (uint32_t i = 0; i < size; i++)
		r->num |= (uint64_t)r->at[i] << (8 * i);
	r->at += size;
	return true;
}

/* Fuel is charged for a function by its size, so what is rare stands apart. */
TALON_APART bool talon_next(talon_reader *r) {
	uint64_t key, n;
	if (r->bad || r->at == r->end)
		return false;
	r->bad = true;
	if (!talon_varint(r, &key) || key < 8 || key > UINT32_MAX)
		return false;
	r->key = (uint32_t)key;
	switch (key & 7) {
	case 0:
		if (!talon_varint(r, &r->num))
			return false;
		break;
	case 2:
		if (!talon_varint(r, &n) || n > (size_t)(r->end - r->at))
			return false;
		r->data = talon_bytes(r->at, (uint32_t)n);
		r->at += n;
		break;
	case 1:
	case 5:
		if (!talon_fixed(r, (key & 7) == 1 ? 8 : 4))
			return false;
		break;
	default:
		return false;
	}
	r->bad = false;
	return true;
}

/* Values walk a repeated field of text or bytes:
 *
 *	talon_values list = talon_tag_items(tag);
 *	for (talon_text item; talon_next_value(&list, &item);)
 */
typedef struct {
	talon_reader r;
	uint32_t key;
} talon_values;

static inline talon_values talon_values_of(talon_text message, uint32_t field) {
	return (talon_values){talon_read(message), TALON_DATA(field)};
}

static inline bool talon_next_value(talon_values *v, talon_text *value) {
	while (talon_next(&v->r))
		if (v->r.key == v->key) {
			*value = v->r.data;
			return true;
		}
	return false;
}

/* talon_as_key returns a key or an id; one of another length is all zeros. */
static inline const uint8_t *talon_as_key(talon_text value) {
	static const uint8_t zeros[32];
	return value.len == 32 ? (const uint8_t *)value.at : zeros;
}

TALON_APART talon_text talon_field(talon_text message, uint32_t field) {
	talon_text data = {0};
	for (talon_reader r = talon_read(message); talon_next(&r);)
		if (r.key == TALON_DATA(field))
			data = r.data;
	return data;
}

static inline uint32_t talon_at_most_32_bits(uint64_t n) { return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n; }

/* ---- Events ---- */

/* What follows is generated from talon.proto by internal/abigen. */
/* Event */

/* A nostr event (NIP-01). Its id and signature have been verified before a module sees
 * it. */
typedef struct {
	const uint8_t *id; /* 32 bytes */
	const uint8_t *pubkey; /* 32 bytes */
	int64_t created_at; /* unix seconds */
	uint32_t kind; /* 0 to 65535 */
	talon_text content;
	talon_text sig; /* 64 bytes */
	talon_text message; /* all of it, as it is encoded */
} talon_event;

static inline bool talon_read_event(talon_text message, talon_event *to) {
	talon_text id = {0};
	talon_text pubkey = {0};
	talon_reader r = talon_read(message);
	*to = (talon_event){.message = message};
	while (talon_next(&r))
		switch (r.key) {
		case TALON_DATA(1): id = r.data; break;
		case TALON_DATA(2): pubkey = r.data; break;
		case TALON_NUMBER(3): to->created_at = (int64_t)r.num; break;
		case TALON_NUMBER(4): to->kind = (uint32_t)r.num; break;
		case TALON_DATA(6): to->content = r.data; break;
		case TALON_DATA(7): to->sig = r.data; break;
		}
	to->id = talon_as_key(id);
	to->pubkey = talon_as_key(pubkey);
	return !r.bad;
}

static inline talon_values talon_tags(talon_event of) { return talon_values_of(of.message, 5); }

/* That was generated. */

/* A tag is its encoded items: a name, then values.
 *
 *	talon_values tags = talon_tags(in->event);
 *	for (talon_tag tag; talon_next_value(&tags, &tag);)
 *		if (talon_same(talon_tag_item(tag, 0), TALON_TEXT("t")))
 */
typedef talon_text talon_tag;

/* All items of a tag, the name included. */
static inline talon_values talon_tag_items(talon_tag tag) { return talon_values_of(tag, 1); }

/* The item at an index, 0 for the name; empty if there is none. */
static inline talon_text talon_tag_item(talon_tag tag, uint32_t index) {
	talon_values items = talon_tag_items(tag);
	for (talon_text item; talon_next_value(&items, &item); index--)
		if (index == 0)
			return item;
	return (talon_text){0};
}

/* The value of the first tag with this name; false if there is none. */
static inline bool talon_find_tag(talon_event e, talon_text name, talon_text *value) {
	talon_values tags = talon_tags(e);
	for (talon_tag tag; talon_next_value(&tags, &tag);)
		if (talon_same(talon_tag_item(tag, 0), name)) {
			*value = talon_tag_item(tag, 1);
			return true;
		}
	return false;
}

/* ---- Requests ---- */

/* What follows is generated from talon.proto by internal/abigen. */
/* Origin */

/* The door through which an event came in. */
enum {
	TALON_FROM_CLIENT = 1, /* an EVENT message on this relay */
	TALON_FROM_IMPORT = 2, /* the operator's import */
	TALON_FROM_SYNC = 3, /* another relay */
};

/* That was generated. */

/* What talon_admit is asked about: one event and where it comes from. */
typedef struct {
	talon_event event;
	uint32_t origin;    /* TALON_FROM_... */
	talon_text address; /* the client's IP address; empty where there is none */
	talon_text relay;   /* that sent it, for TALON_FROM_SYNC */
	talon_text source;  /* the message Source, for talon_authed */
	int64_t now;        /* unix seconds, the only clock there is */
} talon_admit;

/* Keys that the client has proven (NIP-42), each 32 bytes. */
static inline talon_values talon_authed(const talon_admit *in) { return talon_values_of(in->source, 4); }

static inline bool talon_read_admit(talon_text message, talon_admit *in) {
	talon_text event = {0};
	talon_reader r = talon_read(message);
	*in = (talon_admit){0};
	while (talon_next(&r))
		switch (r.key) {
		case TALON_DATA(1): event = r.data; break;
		case TALON_DATA(2): in->source = r.data; break;
		case TALON_NUMBER(3): in->now = (int64_t)r.num; break;
		}
	talon_reader s = talon_read(in->source);
	while (talon_next(&s))
		switch (s.key) {
		case TALON_NUMBER(1): in->origin = (uint32_t)s.num; break;
		case TALON_DATA(2): in->address = s.data; break;
		case TALON_DATA(3): in->relay = s.data; break;
		}
	return talon_read_event(event, &in->event) && !r.bad && !s.bad;
}

/* What follows is generated from talon.proto by internal/abigen. */
/* Client Verb QueryRequest */

/* The client of a connection, as far as it is known. */
typedef struct {
	talon_text address; /* its IP address; empty where there is none */
	talon_text user_agent; /* its User-Agent header */
	talon_text origin; /* the page that a browser was on */
	talon_text path; /* of the request, "/" for most */
	talon_text message; /* all of it, as it is encoded */
} talon_client;

static inline bool talon_read_client(talon_text message, talon_client *to) {
	talon_reader r = talon_read(message);
	*to = (talon_client){.message = message};
	while (talon_next(&r))
		switch (r.key) {
		case TALON_DATA(1): to->address = r.data; break;
		case TALON_DATA(3): to->user_agent = r.data; break;
		case TALON_DATA(4): to->origin = r.data; break;
		case TALON_DATA(5): to->path = r.data; break;
		}
	return !r.bad;
}

/* Keys that it has proven (NIP-42), 32 bytes each. */
static inline talon_values talon_client_authed(talon_client of) { return talon_values_of(of.message, 2); }

/* The message in which a client sends filters. */
enum {
	TALON_VERB_REQ = 1, /* REQ: stored and live events */
	TALON_VERB_COUNT = 2, /* COUNT (NIP-45) */
	TALON_VERB_NEG = 3, /* NEG-OPEN (NIP-77) */
};

/* Asks a policy about the filters of one message. A filter that can match nothing,
 * since one of its lists is empty, is left out. */
typedef struct {
	talon_client client;
	uint32_t verb;
	int64_t now; /* unix seconds */
	talon_text message; /* all of it, as it is encoded */
} talon_query;

static inline bool talon_read_query(talon_text message, talon_query *to) {
	talon_text client = {0};
	talon_reader r = talon_read(message);
	*to = (talon_query){.message = message};
	while (talon_next(&r))
		switch (r.key) {
		case TALON_DATA(2): client = r.data; break;
		case TALON_NUMBER(3): to->verb = talon_at_most_32_bits(r.num); break;
		case TALON_NUMBER(4): to->now = (int64_t)r.num; break;
		}
	return talon_read_client(client, &to->client) && !r.bad;
}

static inline talon_values talon_filters(const talon_query *in) { return talon_values_of(in->message, 1); }

/* That was generated. */

/* A filter is its encoded message. An empty list is no condition. */
typedef talon_text talon_filter;

static inline talon_values talon_filter_ids(talon_filter f) { return talon_values_of(f, 1); }
static inline talon_values talon_filter_authors(talon_filter f) { return talon_values_of(f, 2); }

/* Conditions on tags; talon_condition_name and talon_condition_values read one. */
static inline talon_values talon_filter_tags(talon_filter f) { return talon_values_of(f, 4); }
static inline talon_text talon_condition_name(talon_text condition) { return talon_field(condition, 1); }
static inline talon_values talon_condition_values(talon_text condition) { return talon_values_of(condition, 2); }

/* Numbers walk a repeated field of numbers, packed or not. */
typedef struct {
	talon_reader r, packed;
	uint32_t field;
} talon_numbers;

static inline talon_numbers talon_numbers_of(talon_text message, uint32_t field) {
	return (talon_numbers){.r = talon_read(message), .field = field};
}

static inline bool talon_next_number(talon_numbers *n, uint64_t *value) {
	for (;;) {
		if (n->packed.at != n->packed.end) {
			if (talon_varint(&n->packed, value))
				return true;
			n->packed.at = n->packed.end;
			n->r.bad = true;
		}
		if (!talon_next(&n->r))
			return false;
		if (n->r.key == TALON_NUMBER(n->field)) {
			*value = n->r.num;
			return true;
		}
		if (n->r.key == TALON_DATA(n->field))
			n->packed = talon_read(n->r.data);
	}
}

static inline talon_numbers talon_filter_kinds(talon_filter f) { return talon_numbers_of(f, 3); }

/* Times and limit of a filter; false if the filter has none. */
static inline bool talon_filter_number(talon_filter f, uint32_t field, int64_t *value) {
	bool found = false;
	for (talon_reader r = talon_read(f); talon_next(&r);)
		if (r.key == TALON_NUMBER(field)) {
			*value = (int64_t)r.num;
			found = true;
		}
	return found;
}
static inline bool talon_filter_since(talon_filter f, int64_t *t) { return talon_filter_number(f, 5, t); }
static inline bool talon_filter_until(talon_filter f, int64_t *t) { return talon_filter_number(f, 6, t); }
static inline bool talon_filter_limit(talon_filter f, int64_t *n) { return talon_filter_number(f, 7, n); }

/* What follows is generated from talon.proto by internal/abigen. */
/* ConnectRequest PushRequest */

/* Asks a policy about a client that has just come. */
typedef struct {
	talon_client client;
	uint32_t open; /* connections of the relay, this one included */
	uint32_t from_address; /* of them from the client's address, or its IPv6 /64 */
	int64_t now; /* unix seconds */
} talon_connect;

static inline bool talon_read_connect(talon_text message, talon_connect *to) {
	talon_text client = {0};
	talon_reader r = talon_read(message);
	*to = (talon_connect){0};
	while (talon_next(&r))
		switch (r.key) {
		case TALON_DATA(1): client = r.data; break;
		case TALON_NUMBER(2): to->open = talon_at_most_32_bits(r.num); break;
		case TALON_NUMBER(3): to->from_address = talon_at_most_32_bits(r.num); break;
		case TALON_NUMBER(4): to->now = (int64_t)r.num; break;
		}
	return talon_read_client(client, &to->client) && !r.bad;
}

/* Asks a policy about ref updates. An update that GRASP's own rules refuse stays
 * refused, with the policy's reason if the policy refuses it too. */
typedef struct {
	talon_client client;
	talon_text repo; /* address of the announcement, 30617:pubkey:d */
	int64_t bytes; /* of the pack, as far as it is known; 0 if it is not */
	int64_t stored; /* bytes that the repository takes on disk */
	int64_t now; /* unix seconds */
	bool prs; /* to the repository under /prs/ (GRASP-06): repo names its owner, and needs no announcement */
	bool fetch; /* nobody pushes: the host is about to fetch git data from another server; only limits of the verdict count */
	talon_text message; /* all of it, as it is encoded */
} talon_push;

static inline bool talon_read_push(talon_text message, talon_push *to) {
	talon_text client = {0};
	talon_reader r = talon_read(message);
	*to = (talon_push){.message = message};
	while (talon_next(&r))
		switch (r.key) {
		case TALON_DATA(1): client = r.data; break;
		case TALON_DATA(2): to->repo = r.data; break;
		case TALON_NUMBER(5): to->bytes = (int64_t)r.num; break;
		case TALON_NUMBER(6): to->stored = (int64_t)r.num; break;
		case TALON_NUMBER(7): to->now = (int64_t)r.num; break;
		case TALON_NUMBER(8): to->prs = r.num != 0; break;
		case TALON_NUMBER(9): to->fetch = r.num != 0; break;
		}
	return talon_read_client(client, &to->client) && !r.bad;
}

/* The keys whose states count for the repository, 32 bytes each. */
static inline talon_values talon_maintainers(const talon_push *in) { return talon_values_of(in->message, 3); }

static inline talon_values talon_updates(const talon_push *in) { return talon_values_of(in->message, 4); }

/* That was generated. */

/* One ref update. Object names are hex digits, all zeros for "does not exist". */
typedef struct {
	talon_text ref, old, new_;
} talon_update;

/* Walks the ref updates:
 *
 *	talon_values updates = talon_updates(in);
 *	for (talon_update u; talon_next_update(&updates, &u);)
 */
static inline bool talon_next_update(talon_values *updates, talon_update *u) {
	talon_text message;
	if (!talon_next_value(updates, &message))
		return false;
	*u = (talon_update){talon_field(message, 1), talon_field(message, 2), talon_field(message, 3)};
	return true;
}

/* ---- Configuration ---- */

/* What configure is given: every setting of the manifest, checked against it, the
 * defaults filled in. A key that the manifest does not have ends the module. */
typedef struct {
	talon_text message;
} talon_config;

TALON_APART talon_text talon_setting(const talon_config *c, const char *key) {
	talon_text name = talon_string(key);
	talon_values settings = talon_values_of(c->message, 1);
	for (talon_text s; talon_next_value(&settings, &s);)
		if (talon_same(talon_field(s, 1), name))
			return s;
	__builtin_trap();
}

/* The values of a setting of type strings, ints. */
static inline talon_values talon_config_strings(const talon_config *c, const char *key) {
	return talon_values_of(talon_setting(c, key), 2);
}
static inline talon_numbers talon_config_ints(const talon_config *c, const char *key) {
	return talon_numbers_of(talon_setting(c, key), 3);
}

/* The value of a setting of type string, int, bool, float. */
static inline talon_text talon_config_string(const talon_config *c, const char *key) {
	return talon_field(talon_setting(c, key), 2);
}
static inline int64_t talon_config_int(const talon_config *c, const char *key) {
	talon_numbers n = talon_config_ints(c, key);
	uint64_t value = 0;
	talon_next_number(&n, &value);
	return (int64_t)value;
}
static inline bool talon_config_bool(const talon_config *c, const char *key) {
	talon_numbers n = talon_numbers_of(talon_setting(c, key), 4);
	uint64_t value = 0;
	talon_next_number(&n, &value);
	return value != 0;
}
static inline double talon_config_float(const talon_config *c, const char *key) {
	double value = 0;
	for (talon_reader r = talon_read(talon_setting(c, key)); talon_next(&r);) {
		if (r.key == TALON_DATA(5) && r.data.len >= 8)
			__builtin_memcpy(&value, r.data.at, 8);
		if (r.key == (5 << 3 | 1))
			__builtin_memcpy(&value, &r.num, 8);
	}
	return value;
}

/* How the relay is reached from outside: a setting of the host. */
static inline talon_text talon_config_domain(const talon_config *c) { return talon_field(talon_field(c->message, 2), 1); }

/* The operator's public key, 32 bytes, NULL if none is named. */
static inline const uint8_t *talon_config_operator(const talon_config *c) {
	talon_text key = talon_field(talon_field(c->message, 2), 3);
	return key.len == 32 ? (const uint8_t *)key.at : NULL;
}

/* Whether the relay takes pull requests under /prs/ (GRASP-06). */
static inline bool talon_config_prs(const talon_config *c) {
	talon_numbers n = talon_numbers_of(talon_field(c->message, 2), 2);
	uint64_t yes = 0;
	while (talon_next_number(&n, &yes)) {
	}
	return yes != 0;
}

/* The answer of configure.
 *
 * failure is one sentence that names the key and the value that are wrong. If it is
 * empty, all is well. idle... says that the function passes every request with this
 * configuration. Then the host does not call it.
 *
 * grasps has the specifications that the policy implements ("GRASP-01", ...). The
 * first empty one ends the list. A policy that names GRASP-01 hosts repositories. It
 * may hold an event of kind 30617, 30618, 1618 or 1619 that an earlier policy accepts.
 *
 * criteria and curation are lines for the relay's information document, as grasps is.
 * writes names the authors whose events this policy accepts. limits has figures that it
 * enforces. */
enum {
	TALON_WRITES_UNSAID = 0,
	TALON_WRITES_OPEN = 1,       /* every valid event, but for spam and excess */
	TALON_WRITES_RESTRICTED = 2, /* only of some authors, some kinds, about something */
};

/* Figures that a policy enforces, as the relay's information document (NIP-11) names them. The
 * document shows the strictest of all policies. 0 is no limit. */
typedef struct {
	int64_t max_content_length; /* bytes */
	int64_t max_event_tags;
	int64_t created_at_lower_limit; /* seconds in the past */
	int64_t created_at_upper_limit; /* seconds in the future */
	int64_t min_pow_difficulty;     /* bits that an event of some class must have */
	bool auth_required;             /* nothing can be read without authentication (NIP-42) */
} talon_limitation;

typedef struct {
	talon_text failure;
	bool idle_admit, idle_query, idle_connect, idle_push, idle_audience;
	talon_text grasps[16], criteria, curation;
	uint32_t writes;
	talon_limitation limits;
} talon_configured;

/* The failure for a value that the manifest cannot describe as wrong. */
TALON_APART talon_configured talon_wrong_value(const char *key, talon_text value, const char *want) {
	static talon_line line;
	line.len = 0;
	talon_add_string(&line, "config ");
	talon_add_string(&line, key);
	talon_add_string(&line, " has \"");
	talon_add(&line, value);
	talon_add_string(&line, "\": want ");
	talon_add_string(&line, want);
	return (talon_configured){.failure = talon_line_text(&line)};
}

TALON_APART uint32_t talon_polymod(uint32_t sum, uint32_t v) {
	static const uint32_t generator[5] = {0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3};
	uint32_t top = sum >> 25;
	sum = (sum & 0x1ffffff) << 5 ^ v;
	for (int i = 0; i < 5; i++)
		if (top >> i & 1)
			sum ^= generator[i];
	return sum;
}

static const char talon_bech32[] = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/* The checksum of bech32 after the prefix npub. */
static inline uint32_t talon_npub_sum(void) {
	static const char prefix[] = "npub";
	uint32_t sum = 1;
	for (int i = 0; i < 4; i++)
		sum = talon_polymod(sum, (uint8_t)prefix[i] >> 5);
	sum = talon_polymod(sum, 0);
	for (int i = 0; i < 4; i++)
		sum = talon_polymod(sum, prefix[i] & 31);
	return sum;
}

/* talon_add_hex adds bytes as hex digits, two for each. */
TALON_APART talon_line *talon_add_hex(talon_line *l, const void *at, uint32_t len) {
	const uint8_t *bytes = (const uint8_t *)at;
	if (len > (sizeof l->at - l->len) / 2)
		return l;
	for (uint32_t i = 0; i < len; i++) {
		l->at[l->len++] = "0123456789abcdef"[bytes[i] >> 4];
		l->at[l->len++] = "0123456789abcdef"[bytes[i] & 15];
	}
	return l;
}

/* talon_add_npub adds a public key (32 bytes) as an npub (NIP-19). */
TALON_APART talon_line *talon_add_npub(talon_line *l, const uint8_t *key) {
	char words[52 + 6];
	uint32_t sum = talon_npub_sum(), acc = 0, bits = 0, n = 0;
	for (uint32_t i = 0; i < 33; i++) {
		acc = acc << 8 | (i < 32 ? key[i] : 0); /* zeros fill the last five bits */
		for (bits += 8; bits >= 5 && n < 52; bits -= 5) {
			uint32_t v = acc >> (bits - 5) & 31;
			sum = talon_polymod(sum, v);
			words[n++] = talon_bech32[v];
		}
	}
	for (int i = 0; i < 6; i++)
		sum = talon_polymod(sum, 0);
	for (int i = 5; i >= 0; i--)
		words[n++] = talon_bech32[(sum ^ 1) >> (5 * i) & 31];
	if (sizeof l->at - l->len < 63)
		return l;
	return talon_add(talon_add_string(l, "npub1"), talon_bytes(words, n));
}

/* talon_parse_key decodes 64 hex digits or an npub (NIP-19) into 32 bytes. */
TALON_APART bool talon_parse_key(talon_text s, uint8_t *key) {
	if (s.len == 64) {
		for (uint32_t i = 0; i < 64; i++) {
			uint8_t c = (uint8_t)s.at[i], v;
			if (c >= '0' && c <= '9')
				v = c - '0';
			else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
				v = (c | 0x20) - 'a' + 10;
			else
				return false;
			key[i / 2] = (uint8_t)(key[i / 2] << 4 | v);
		}
		return true;
	}
	if (s.len != 63)
		return false;
	static const char prefix[] = "npub1";
	bool upper = s.at[0] == 'N';
	uint32_t sum = talon_npub_sum(), acc = 0, bits = 0, n = 0;
	for (uint32_t i = 0; i < 63; i++) {
		char c = s.at[i];
		if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
			return false;
		if (c >= 'A' && c <= 'Z')
			c |= 0x20;
		if (i < 5) {
			if (c != prefix[i])
				return false;
			continue;
		}
		uint32_t v = 0;
		while (v < 32 && talon_bech32[v] != c)
			v++;
		if (v == 32)
			return false;
		sum = talon_polymod(sum, v);
		if (i >= 5 + 52)
			continue;
		acc = acc << 5 | v;
		bits += 5;
		if (bits >= 8) {
			bits -= 8;
			key[n++] = (uint8_t)(acc >> bits);
			acc &= (1u << bits) - 1;
		}
	}
	return sum == 1 && acc == 0;
}

/* ---- Host functions ---- */

#ifdef __wasm__
#define TALON_IMPORT(name) __attribute__((import_module("talon"), import_name(name)))
#else
#define TALON_IMPORT(name)
#endif

enum {
	TALON_NOT_FOUND = -1,   /* no such event, value, ref, set */
	TALON_UNAVAILABLE = -2, /* the host could not answer: the client is asked to try again */
	TALON_NO_ROOM = -3,     /* of kv.set: what the module may keep is used up */
	TALON_NEVER = -1,       /* of bucket.take: more than the bucket holds */
};
enum { TALON_DEBUG = 0, TALON_INFO = 1, TALON_WARN = 2, TALON_ERROR = 3 };
enum { TALON_COUNTER = 0, TALON_GAUGE = 1 };

TALON_IMPORT("store.get") int32_t talon_import_store_get(const void *id, void *out, uint32_t cap);
TALON_IMPORT("store.query") int32_t talon_import_store_query(const void *filter, uint32_t len, void *out, uint32_t cap);
TALON_IMPORT("store.referenced") int32_t talon_import_store_referenced(const void *text, uint32_t len);
TALON_IMPORT("held.get") int32_t talon_import_held_get(const void *id, void *out, uint32_t cap);
TALON_IMPORT("held.query") int32_t talon_import_held_query(const void *filter, uint32_t len, void *out, uint32_t cap);
TALON_IMPORT("git.has") int32_t talon_import_git_has(const void *repo, uint32_t rlen, const void *oid, uint32_t olen);
TALON_IMPORT("git.ref") int32_t talon_import_git_ref(const void *repo, uint32_t rlen, const void *ref, uint32_t len, void *out, uint32_t cap);
TALON_IMPORT("usage.get") int32_t talon_import_usage_get(const void *name, uint32_t len, void *out, uint32_t cap);
TALON_IMPORT("kv.get") int32_t talon_import_kv_get(const void *key, uint32_t klen, void *out, uint32_t cap);
TALON_IMPORT("kv.set") int32_t talon_import_kv_set(const void *key, uint32_t klen, const void *val, uint32_t vlen, int64_t ttl);
TALON_IMPORT("kv.delete") void talon_import_kv_delete(const void *key, uint32_t klen);
TALON_IMPORT("kv.incr") int64_t talon_import_kv_incr(const void *key, uint32_t klen, int64_t delta, int64_t ttl);
TALON_IMPORT("sets.contains") int32_t talon_import_sets_contains(const void *name, uint32_t nlen, const void *member, uint32_t mlen);
TALON_IMPORT("bucket.take") int64_t talon_import_bucket_take(const void *key, uint32_t klen, uint32_t n, uint32_t burst, int64_t per_ms);
TALON_IMPORT("log") void talon_import_log(int32_t level, const void *text, uint32_t len);
TALON_IMPORT("metric") void talon_import_metric(int32_t kind, const void *name, uint32_t nlen, double value);

/* Each needs the capability of its name, store.get for talon_store_get. Those with
 * out and cap return the length of the answer, which was written only if it is at
 * most cap, or a number below zero. */

/* The event with this id (32 bytes): read it with talon_read_event. */
static inline int32_t talon_store_get(const uint8_t *id, void *out, uint32_t cap) { return talon_import_store_get(id, out, cap); }
static inline int32_t talon_held_get(const uint8_t *id, void *out, uint32_t cap) { return talon_import_held_get(id, out, cap); }

/* The events that match, newest first: read them with talon_events. */
static inline int32_t talon_store_query(talon_text filter, void *out, uint32_t cap) {
	return talon_import_store_query(filter.at, filter.len, out, cap);
}
static inline int32_t talon_held_query(talon_text filter, void *out, uint32_t cap) {
	return talon_import_held_query(filter.at, filter.len, out, cap);
}

/* Whether a stored event names the id (hex) or address in an e, E, q, a or A tag. */
static inline bool talon_store_referenced(talon_text id_or_address) {
	return talon_import_store_referenced(id_or_address.at, id_or_address.len) == 1;
}

/* Whether the repository (30617:<hex>:<d>) has the object (hex digits, then ^{commit}
 * where only a commit will do); with an empty object, whether it is here. */
static inline bool talon_git_has(talon_text repo, talon_text object) {
	return talon_import_git_has(repo.at, repo.len, object.at, object.len) == 1;
}

/* The object name that a ref in full has, as hex digits. */
static inline int32_t talon_git_ref(talon_text repo, talon_text ref, void *out, uint32_t cap) {
	return talon_import_git_ref(repo.at, repo.len, ref.at, ref.len, out, cap);
}

/* How much of the store an author (32 bytes, or 64 hex digits) or a repository (30617:<hex>:<d>)
 * takes. False if the host cannot tell now. Others write at the same time, so what a policy
 * allows by it is not exact; talon_within is. */
typedef struct {
	int64_t events, bytes, git; /* bytes of the events' JSON, and of git data */
} talon_usage;
static inline bool talon_usage_get(talon_text name, talon_usage *u) {
	*u = (talon_usage){0}; /* wasm is little endian, as the answer is */
	return talon_import_usage_get(name.at, name.len, u, sizeof *u) >= 0;
}

/* What the module has kept under a key. */
static inline int32_t talon_kv_get(talon_text key, void *out, uint32_t cap) {
	return talon_import_kv_get(key.at, key.len, out, cap);
}

/* Keeps a value for ttl seconds, 0: for ever. False if there is no room. */
static inline bool talon_kv_set(talon_text key, talon_text value, int64_t ttl) {
	return talon_import_kv_set(key.at, key.len, value.at, value.len, ttl) == 0;
}
static inline void talon_kv_delete(talon_text key) { talon_import_kv_delete(key.at, key.len); }

/* Adds to a counter, and returns the sum. ttl applies when the key is new. */
static inline int64_t talon_kv_incr(talon_text key, int64_t delta, int64_t ttl) {
	return talon_import_kv_incr(key.at, key.len, delta, ttl);
}

/* 1 if the operator's set has the member, 0 if not, TALON_NOT_FOUND: no such set. */
static inline int32_t talon_in_set(const char *name, talon_text member) {
	talon_text n = talon_string(name);
	return talon_import_sets_contains(n.at, n.len, member.at, member.len);
}

/* Takes n tokens from a bucket that holds burst and gets one back every per_ms
 * milliseconds. 0: taken; else the milliseconds until they would be there, or
 * TALON_NEVER. */
static inline int64_t talon_take(talon_text key, uint32_t n, uint32_t burst, int64_t per_ms) {
	return talon_import_bucket_take(key.at, key.len, n, burst, per_ms);
}

static inline void talon_log(int32_t level, talon_text text) { talon_import_log(level, text.at, text.len); }

/* Adds to a counter or sets a gauge of the operator's metrics; names are a-z 0-9 _. */
static inline void talon_metric(int32_t kind, const char *name, double value) {
	talon_text n = talon_string(name);
	talon_import_metric(kind, n.at, n.len, value);
}

/* Walks the answer to a query:
 *
 *	talon_values events = talon_events(talon_bytes(out, n));
 *	for (talon_event e; talon_next_event(&events, &e);)
 */
static inline talon_values talon_events(talon_text answer) { return talon_values_of(answer, 1); }

static inline bool talon_next_event(talon_values *events, talon_event *e) {
	talon_text message;
	return talon_next_value(events, &message) && talon_read_event(message, e);
}

/* Whether others may match: the list is as long as it may be, or an event was too
 * large for it. */
static inline bool talon_more_events(talon_text answer) {
	talon_numbers more = talon_numbers_of(answer, 2);
	uint64_t yes = 0;
	while (talon_next_number(&more, &yes)) {
	}
	return yes != 0;
}

/* ---- A filter to ask with ---- */

/* A writer puts a message together in memory of the policy's. full says that
 * something did not fit: then ask nothing with it. */
typedef struct {
	uint8_t *at;
	uint32_t len, cap;
	bool full;
} talon_writer;

TALON_APART void talon_put(talon_writer *w, talon_text t) {
	if (t.len > w->cap - w->len) {
		w->full = true;
	} else if (t.len > 0) {
		__builtin_memcpy(w->at + w->len, t.at, t.len);
		w->len += t.len;
	}
}

TALON_APART void talon_put_varint(talon_writer *w, uint64_t v) {
	uint8_t b[10];
	uint32_t n = 0;
	for (; v >= 0x80; v >>= 7)
		b[n++] = (uint8_t)(v | 0x80);
	b[n++] = (uint8_t)v;
	talon_put(w, talon_bytes(b, n));
}

TALON_APART void talon_put_number(talon_writer *w, uint32_t field, uint64_t v) {
	talon_put_varint(w, TALON_NUMBER(field));
	talon_put_varint(w, v);
}

TALON_APART void talon_put_data(talon_writer *w, uint32_t field, talon_text data) {
	talon_put_varint(w, TALON_DATA(field));
	talon_put_varint(w, data.len);
	talon_put(w, data);
}

/* Conditions of a filter:
 *
 *	uint8_t memory[128];
 *	talon_writer filter = {memory, 0, sizeof memory, false};
 *	talon_ask_author(&filter, in->event.pubkey);
 *	talon_ask_kind(&filter, 0);
 *	int32_t n = talon_store_query(talon_asked(&filter), out, sizeof out);
 */
static inline void talon_ask_id(talon_writer *w, const uint8_t *id) { talon_put_data(w, 1, talon_bytes(id, 32)); }
static inline void talon_ask_author(talon_writer *w, const uint8_t *key) { talon_put_data(w, 2, talon_bytes(key, 32)); }
static inline void talon_ask_since(talon_writer *w, int64_t t) { talon_put_number(w, 5, (uint64_t)t); }
static inline void talon_ask_until(talon_writer *w, int64_t t) { talon_put_number(w, 6, (uint64_t)t); }
static inline void talon_ask_limit(talon_writer *w, uint32_t n) { talon_put_number(w, 7, n); }

static inline uint32_t talon_size_varint(uint64_t v) {
	uint32_t n = 1;
	for (; v >= 0x80; v >>= 7)
		n++;
	return n;
}

static inline void talon_ask_kind(talon_writer *w, uint32_t kind) {
	talon_put_varint(w, TALON_DATA(3)); /* packed */
	talon_put_varint(w, talon_size_varint(kind));
	talon_put_varint(w, kind);
}

/* A tag of one letter with this value. */
static inline void talon_ask_tag(talon_writer *w, char name, talon_text value) {
	talon_put_varint(w, TALON_DATA(4));
	talon_put_varint(w, 3 + 1 + talon_size_varint(value.len) + value.len);
	talon_put_data(w, 1, talon_bytes(&name, 1));
	talon_put_data(w, 2, value);
}

/* What is at an address, kind:pubkey:d: one stored event at most, however many others
 * have announced under the same d. */
#define TALON_BY_ADDRESS TALON_TEXT("address")

/* The repository announcements (NIP-34) that list a maintainer: pubkey:identifier. */
#define TALON_BY_MAINTAINER TALON_TEXT("maintainer")

static inline void talon_ask_by(talon_writer *w, talon_text name, talon_text value) {
	talon_put_varint(w, TALON_DATA(4));
	talon_put_varint(w, 1 + talon_size_varint(name.len) + name.len + 1 + talon_size_varint(value.len) + value.len);
	talon_put_data(w, 1, name);
	talon_put_data(w, 2, value);
}

/* The events may come without tags, content and signature, which costs no fuel for
 * their size. */
static inline void talon_ask_header(talon_writer *w) { talon_put_number(w, 8, 1); }

static inline talon_text talon_asked(const talon_writer *w) { return talon_bytes(w->at, w->full ? 0 : w->len); }

/* ---- Answers ---- */

/* talon_fit cuts text to n bytes, not within a character. */
static inline talon_text talon_fit(talon_text t, uint32_t n) {
	if (t.len > n) {
		while (n > 0 && ((uint8_t)t.at[n] & 0xc0) == 0x80)
			n--;
		t.len = n;
	}
	return t;
}

TALON_APART void talon_put_some(talon_writer *w, uint32_t field, talon_text t) {
	if (t.len > 0)
		talon_put_data(w, field, talon_fit(t, 1024));
}

static inline uint32_t talon_size_some(talon_text t) {
	uint32_t n = talon_fit(t, 1024).len;
	return n > 0 ? 1 + talon_size_varint(n) + n : 0;
}

TALON_APART void talon_write_verdict(talon_writer *w, const talon_verdict *v) {
	talon_text prefix = talon_fit(v->prefix, 64), text = talon_fit(v->text, 1024);
	if (v->action != TALON_ACTION_PASS)
		talon_put_number(w, 1, v->action);
	talon_put_some(w, 2, v->rule);
	if (prefix.len > 0) {
		talon_put_varint(w, TALON_DATA(3));
		talon_put_varint(w, prefix.len + 2 + text.len);
		talon_put(w, prefix);
		talon_put(w, TALON_TEXT(": "));
		talon_put(w, text);
	} else {
		talon_put_some(w, 3, text);
	}
	if (v->end)
		talon_put_number(w, 4, 1);
	if (v->retry > 0)
		talon_put_number(w, 10, v->retry);
	if (v->keys.len > 0)
		talon_put_data(w, 12, v->keys);
	talon_put_some(w, 13, v->set);
	if (v->wake.len > 0) {
		if (v->wait > 0)
			talon_put_number(w, 7, v->wait);
		talon_put_data(w, 14, v->wake);
	}
	if (v->max_author_bytes > 0)
		talon_put_number(w, 5, (uint64_t)v->max_author_bytes);
	if (v->max_repository_bytes > 0)
		talon_put_number(w, 6, (uint64_t)v->max_repository_bytes);
}

/* The figure of a field of talon_limitation. */
static inline uint64_t talon_limit(const talon_limitation *l, uint32_t field) {
	switch (field) {
	case 1:
		return (uint64_t)l->max_content_length;
	case 2:
		return (uint64_t)l->max_event_tags;
	case 3:
		return (uint64_t)l->created_at_lower_limit;
	case 4:
		return (uint64_t)l->created_at_upper_limit;
	case 5:
		return (uint64_t)l->min_pow_difficulty;
	}
	return l->auth_required;
}

TALON_APART void talon_write_configured(talon_writer *w, const talon_configured *c) {
	talon_put_some(w, 1, c->failure);
	if (c->idle_admit)
		talon_put_data(w, 2, TALON_TEXT("admit"));
	if (c->idle_query)
		talon_put_data(w, 2, TALON_TEXT("query"));
	if (c->idle_connect)
		talon_put_data(w, 2, TALON_TEXT("connect"));
	if (c->idle_push)
		talon_put_data(w, 2, TALON_TEXT("push"));
	if (c->idle_audience)
		talon_put_data(w, 2, TALON_TEXT("audience"));
	uint32_t size = talon_size_some(c->criteria) + talon_size_some(c->curation), n = 0;
	for (; n < 16 && c->grasps[n].len > 0; n++)
		size += talon_size_some(c->grasps[n]);
	if (c->writes != TALON_WRITES_UNSAID)
		size += 1 + talon_size_varint(c->writes);
	uint32_t limits = 0;
	for (uint32_t field = 1; field <= 6; field++)
		if (talon_limit(&c->limits, field) != 0)
			limits += 1 + talon_size_varint(talon_limit(&c->limits, field));
	if (limits > 0)
		size += 1 + talon_size_varint(limits) + limits;
	if (size > 0) {
		talon_put_varint(w, TALON_DATA(3));
		talon_put_varint(w, size);
		for (uint32_t i = 0; i < n; i++)
			talon_put_some(w, 1, c->grasps[i]);
		talon_put_some(w, 2, c->criteria);
		talon_put_some(w, 3, c->curation);
		if (c->writes != TALON_WRITES_UNSAID)
			talon_put_number(w, 4, c->writes);
		if (limits > 0) {
			talon_put_varint(w, TALON_DATA(5));
			talon_put_varint(w, limits);
			for (uint32_t field = 1; field <= 6; field++)
				if (talon_limit(&c->limits, field) != 0)
					talon_put_number(w, field, talon_limit(&c->limits, field));
		}
	}
}

/* ---- The module ---- */

#ifdef __wasm__

/* clang may call these where it sees a loop or a copied struct. */
__attribute__((weak)) void *memcpy(void *to, const void *from, size_t n) { return __builtin_memcpy(to, from, n); }
__attribute__((weak)) void *memmove(void *to, const void *from, size_t n) { return __builtin_memmove(to, from, n); }
__attribute__((weak)) void *memset(void *to, int c, size_t n) { return __builtin_memset(to, c, n); }

/* talon_keep takes memory for good: for what configure makes, not for a decision. */
TALON_APART void *talon_keep(uint32_t size) {
	extern uint8_t __heap_base;
	static uint64_t next;
	if (next == 0)
		next = ((uint64_t)(uintptr_t)&__heap_base + 15) & ~(uint64_t)15;
	uint64_t at = next, end = (at + size + 15) & ~(uint64_t)15;
	uint64_t pages = (end + 65535) >> 16, have = __builtin_wasm_memory_size(0);
	if (pages > 65535 || (pages > have && __builtin_wasm_memory_grow(0, pages - have) == (size_t)-1))
		__builtin_trap();
	next = end;
	return (void *)(uintptr_t)at;
}

static uint8_t *talon_in;
static uint32_t talon_in_cap;
static uint8_t talon_out[36 << 10]; /* the keys of an audience take most of it */

/* A request longer than the buffer gets one at least twice as large, so that
 * requests that grow byte by byte do not use up the memory. */
__attribute__((export_name("talon_buffer"))) uint32_t talon_export_buffer(uint32_t size) {
	if (size > talon_in_cap) {
		uint32_t more = talon_in_cap < 1u << 30 ? 2 * talon_in_cap : 0;
		talon_in_cap = size > more ? size : more;
		talon_in = talon_keep(talon_in_cap);
	}
	return (uint32_t)(uintptr_t)talon_in;
}

__attribute__((export_name("talon_abi_1"))) void talon_export_abi_1(void) {}

static inline talon_text talon_request(uint32_t len) {
	if (len > talon_in_cap)
		__builtin_trap();
	return talon_bytes(talon_in, len);
}

static inline int64_t talon_answered(const talon_writer *w) {
	return w->len == 0 ? 0 : (int64_t)((uint64_t)(uintptr_t)w->at << 32 | w->len);
}

static inline int64_t talon_answer(const talon_verdict *v) {
	talon_writer w = {talon_out, 0, sizeof talon_out, false};
	talon_write_verdict(&w, v);
	return talon_answered(&w);
}

#define TALON_FUNCTION(name, decide)                                                              \
	__attribute__((export_name("talon_" #name))) int64_t talon_export_##name(uint32_t len) { \
		talon_##name in;                                                                  \
		if (!talon_read_##name(talon_request(len), &in))                                  \
			__builtin_trap();                                                         \
		talon_verdict v = decide(&in);                                                    \
		return talon_answer(&v);                                                          \
	}

/* TALON_POLICY says where the manifest is, on clang's include path, and what is
 * called with the configuration: a function that takes a const talon_config * and
 * returns a talon_configured. */
#define TALON_POLICY(manifest, configure)                                                      \
	__asm__(".section .rodata.talon_manifest,\"\",@\n"                                     \
		".globl talon_manifest\n.type talon_manifest,@object\n"                        \
		"talon_manifest:\n.incbin \"" manifest "\"\n"                                    \
		".asciz \"talon-sdk/c " TALON_SDK "\"\n.Ltalon_manifest_end:\n"                  \
		".size talon_manifest, .Ltalon_manifest_end-talon_manifest\n");                \
	extern const char talon_manifest[];                                                    \
	__attribute__((export_name("talon_configure"))) int64_t talon_export_configure(uint32_t len) { \
		__asm__ volatile("" ::"r"(talon_manifest)); /* so that the linker keeps it */  \
		talon_config config = {talon_request(len)};                                    \
		talon_configured answer = configure(&config);                                  \
		talon_writer w = {talon_out, 0, sizeof talon_out, false};                      \
		talon_write_configured(&w, &answer);                                           \
		return talon_answered(&w);                                                     \
	}

#else /* natively, for tests of a policy */

#include <stdlib.h>

TALON_APART void *talon_keep(uint32_t size) { return malloc(size); }

#define TALON_FUNCTION(name, decide) \
	talon_verdict talon_native_##name(const talon_##name *in) { return decide(in); }
#define TALON_POLICY(manifest, configure) \
	talon_configured talon_native_configure(const talon_config *c) { return configure(c); }

#endif

/* What decides: each a function that takes a const talon_admit *, talon_query *,
 * talon_connect *, talon_push * or talon_audience *, and returns a talon_verdict.
 * "functions" of the manifest names those that the host calls. A talon_audience is a
 * talon_admit without a source. */
typedef talon_admit talon_audience;
static inline bool talon_read_audience(talon_text message, talon_audience *to) { return talon_read_admit(message, to); }
#define TALON_ADMIT(decide) TALON_FUNCTION(admit, decide)
#define TALON_QUERY(decide) TALON_FUNCTION(query, decide)
#define TALON_CONNECT(decide) TALON_FUNCTION(connect, decide)
#define TALON_PUSH(decide) TALON_FUNCTION(push, decide)
#define TALON_AUDIENCE(decide) TALON_FUNCTION(audience, decide)

#endif

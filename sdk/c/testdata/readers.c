/* readers reads messages with talon.h and says what it has read, for a test that
 * compares that with what package abi reads. Each message is in memory of its own, so
 * that a sanitizer sees a read outside of it.
 *
 * It gets a kind, a length (4 bytes, little endian) and a message, and answers with 1
 * if the message could be read, and a digest (8 bytes). */
#include <stdio.h>

#include "talon.h"

static uint64_t digest;

static void hash(const void *at, uint32_t len) {
	const uint8_t *b = at;
	for (uint32_t i = 0; i < len; i++)
		digest = (digest ^ b[i]) * 1099511628211u;
}

static void number(uint64_t v) { hash(&v, 8); }

static void text(talon_text t) {
	number(t.len);
	hash(t.at, t.len);
}

static void key(const uint8_t *k) { hash(k, 32); }

static void keys(talon_values list) {
	for (talon_text k; talon_next_value(&list, &k);)
		key(talon_as_key(k));
}

static void texts(talon_values list) {
	for (talon_text t; talon_next_value(&list, &t);)
		text(t);
}

static void event(talon_event e) {
	key(e.id);
	key(e.pubkey);
	text(e.sig);
	number((uint64_t)e.created_at);
	number(e.kind);
	text(e.content);
	talon_values tags = talon_tags(e);
	for (talon_tag tag; talon_next_value(&tags, &tag);) {
		text(talon_tag_item(tag, 0));
		text(talon_tag_item(tag, 1));
		texts(talon_tag_items(tag));
	}
	talon_text d;
	if (talon_find_tag(e, TALON_TEXT("d"), &d))
		text(d);
}

static void client(talon_client c) {
	text(c.address);
	text(c.user_agent);
	text(c.origin);
	text(c.path);
	keys(talon_client_authed(c));
}

static bool admit(talon_text message) {
	talon_admit in;
	if (!talon_read_admit(message, &in))
		return false;
	event(in.event);
	number(in.origin);
	text(in.address);
	text(in.relay);
	keys(talon_authed(&in));
	number((uint64_t)in.now);
	return true;
}

static void filter(talon_filter f) {
	keys(talon_filter_ids(f));
	keys(talon_filter_authors(f));
	talon_numbers kinds = talon_filter_kinds(f);
	for (uint64_t kind; talon_next_number(&kinds, &kind);)
		number(talon_at_most_32_bits(kind));
	talon_values tags = talon_filter_tags(f);
	for (talon_text c; talon_next_value(&tags, &c);) {
		text(talon_condition_name(c));
		texts(talon_condition_values(c));
	}
	int64_t n = 0;
	number(talon_filter_since(f, &n) ? (uint64_t)n : 1);
	number(talon_filter_until(f, &n) ? (uint64_t)n : 1);
	number(talon_filter_limit(f, &n) ? talon_at_most_32_bits((uint64_t)n) : 1);
}

static bool query(talon_text message) {
	talon_query in;
	if (!talon_read_query(message, &in))
		return false;
	client(in.client);
	number(in.verb);
	number((uint64_t)in.now);
	talon_values filters = talon_filters(&in);
	for (talon_filter f; talon_next_value(&filters, &f);)
		filter(f);
	return true;
}

static bool connect(talon_text message) {
	talon_connect in;
	if (!talon_read_connect(message, &in))
		return false;
	client(in.client);
	number(in.open);
	number(in.from_address);
	number((uint64_t)in.now);
	return true;
}

static bool push(talon_text message) {
	talon_push in;
	if (!talon_read_push(message, &in))
		return false;
	client(in.client);
	text(in.repo);
	number(in.prs);
	number((uint64_t)in.bytes);
	number((uint64_t)in.stored);
	number((uint64_t)in.now);
	keys(talon_maintainers(&in));
	talon_values updates = talon_updates(&in);
	for (talon_update u; talon_next_update(&updates, &u);) {
		text(u.ref);
		text(u.old);
		text(u.new_);
	}
	return true;
}

static bool events(talon_text message) {
	talon_values list = talon_events(message);
	for (talon_event e; talon_next_event(&list, &e);)
		event(e);
	return true;
}

/* The settings that a configuration has, by their keys; of one that is malformed only
 * that nothing is read outside of it. */
static bool config(talon_text message) {
	talon_config c = {message};
	talon_values settings = talon_values_of(message, 1);
	for (talon_text s; talon_next_value(&settings, &s);) {
		talon_text name = talon_field(s, 1);
		char k[65] = {0};
		if (name.len == 0 || name.len > 64)
			continue;
		__builtin_memcpy(k, name.at, name.len);
		if (!talon_same(talon_string(k), name))
			continue; /* a zero within */
		text(talon_config_string(&c, k));
		texts(talon_config_strings(&c, k));
		number((uint64_t)talon_config_int(&c, k));
		number(talon_config_bool(&c, k));
		double f = talon_config_float(&c, k);
		hash(&f, 8);
		uint8_t pubkey[32] = {0};
		if (talon_parse_key(talon_config_string(&c, k), pubkey))
			key(pubkey);
	}
	text(talon_config_domain(&c));
	const uint8_t *operator = talon_config_operator(&c);
	if (operator != NULL) {
		static talon_line line;
		line.len = 0;
		while (line.len < 1000)
			talon_add_npub(talon_add_hex(&line, operator, 32), operator);
		talon_add_npub(talon_add_hex(&line, operator, 32), operator); /* there is no room */
	}
	return true;
}

int main(void) {
	static bool (*const kinds[])(talon_text) = {admit, query, connect, push, events, config};
	for (;;) {
		uint8_t head[5], answer[9];
		if (fread(head, 1, sizeof head, stdin) != sizeof head)
			return 0;
		uint32_t len = head[1] | head[2] << 8 | head[3] << 16 | (uint32_t)head[4] << 24;
		uint8_t *message = malloc(len > 0 ? len : 1);
		if (message == NULL || fread(message, 1, len, stdin) != len)
			return 1;
		digest = 14695981039346656037u;
		answer[0] = kinds[head[0] % 6](talon_bytes(message, len));
		for (int i = 0; i < 8; i++)
			answer[1 + i] = (uint8_t)(digest >> (8 * i));
		free(message);
		if (fwrite(answer, 1, sizeof answer, stdout) != sizeof answer || fflush(stdout) != 0)
			return 1;
	}
}

/* conformance says everything that it is told and finds out. */
#include "talon.h"

static talon_line settings, line;

static void add(const char *s) { talon_add_string(&line, s); }
static void text(talon_text t) { talon_add(&line, t); }
static void num(int64_t n) { talon_add_int(&line, n); }

static void first_bytes(talon_values keys) {
	for (talon_text k; talon_next_value(&keys, &k); add(","))
		num(talon_as_key(k)[0]);
}

static talon_configured configure(const talon_config *c) {
	if (talon_same(talon_config_string(c, "text"), TALON_TEXT("wrong")))
		return talon_wrong_value("text", TALON_TEXT("wrong"), "another");
	add(" text="), text(talon_config_string(c, "text"));
	add(" n="), num(talon_config_int(c, "n"));
	add(" on="), num(talon_config_bool(c, "on"));
	add(" f="), num((int64_t)(talon_config_float(c, "f") * 10));
	add(" list=");
	talon_values list = talon_config_strings(c, "list");
	for (talon_text s; talon_next_value(&list, &s); add(","))
		text(s);
	add(" ints=");
	talon_numbers ints = talon_config_ints(c, "ints");
	for (uint64_t n; talon_next_number(&ints, &n); add(","))
		num((int64_t)n);
	add(" at="), text(talon_config_domain(c));
	add(" prs="), num(talon_config_prs(c));
	add(" operator=");
	const uint8_t *operator = talon_config_operator(c);
	if (operator != NULL)
		talon_add_npub(&line, operator), add(","), talon_add_hex(&line, operator, 32);
	add(" key=");
	uint8_t key[32];
	if (talon_parse_key(talon_config_string(c, "text"), key))
		talon_add_hex(&line, key, 32);
	settings = line;
	return (talon_configured){
		.grasps = {TALON_TEXT("GRASP-01"), TALON_TEXT("GRASP-06")}, .criteria = TALON_TEXT("everything"), .curation = TALON_TEXT("nothing"),
		.writes = TALON_WRITES_RESTRICTED,
		.limits = {
			.max_content_length = 70000, .max_event_tags = 300, .created_at_lower_limit = 1, .created_at_upper_limit = 900,
			.min_pow_difficulty = 20, .auth_required = true,
		},
	};
}

static talon_verdict admit(const talon_admit *in) {
	static uint8_t memory[512], out[16 << 10];
	const talon_event *event = &in->event;
	if (event->kind == 16) {
		talon_writer wake = {memory, 0, sizeof memory, false};
		talon_ask_author(&wake, event->pubkey);
		talon_ask_kind(&wake, 7);
		talon_ask_tag(&wake, 'p', event->content);
		talon_ask_since(&wake, 5);
		return talon_awaiting(talon_hold("waits", TALON_TEXT("waits")), talon_asked(&wake), 3600);
	}
	line.len = 0;
	add("kind="), num(event->kind);
	add(" at="), num(event->created_at);
	add(" origin="), num(in->origin);
	add(" address="), text(in->address);
	add(" relay="), text(in->relay);
	add(" now="), num(in->now);
	add(" authed="), first_bytes(talon_authed(in));
	add(" tags=");
	talon_values tags = talon_tags(*event);
	for (talon_tag tag; talon_next_value(&tags, &tag); add(",")) {
		text(talon_tag_item(tag, 0)), add(":"), text(talon_tag_item(tag, 1)), add(":");
		int64_t items = 0;
		talon_values all = talon_tag_items(tag);
		for (talon_text item; talon_next_value(&all, &item);)
			items++;
		num(items);
	}
	talon_text d = {0};
	bool found = talon_find_tag(*event, TALON_TEXT("d"), &d);
	add(" d="), num(d.len), num(found);

	talon_event e;
	add(" get=");
	int32_t n = talon_store_get(event->id, out, sizeof out);
	if (n >= 0 && talon_read_event(talon_bytes(out, n), &e))
		text(e.content);
	add(" held=");
	n = talon_held_get(event->id, out, sizeof out);
	if (n >= 0 && talon_read_event(talon_bytes(out, n), &e))
		text(e.content);
	add(" query=");
	talon_writer filter = {memory, 0, sizeof memory, false};
	talon_ask_author(&filter, event->pubkey);
	talon_ask_kind(&filter, 1);
	talon_ask_tag(&filter, 't', event->content);
	talon_ask_since(&filter, 5);
	talon_ask_until(&filter, 2000000000);
	talon_ask_limit(&filter, 10);
	n = talon_store_query(talon_asked(&filter), out, sizeof out);
	talon_text answer = talon_bytes(out, n < 0 ? 0 : n);
	talon_values events = talon_events(answer);
	for (; talon_next_event(&events, &e); add(","))
		text(e.content);
	num(talon_more_events(answer));
	add(" queryheld=");
	filter.len = 0;
	talon_ask_id(&filter, event->id);
	n = talon_held_query(talon_asked(&filter), out, sizeof out);
	events = talon_events(talon_bytes(out, n < 0 ? 0 : n));
	for (; talon_next_event(&events, &e); add(","))
		num(e.id[0]);
	add(" there=");
	filter.len = 0;
	talon_ask_by(&filter, TALON_BY_ADDRESS, TALON_TEXT("30023:0800000000000000000000000000000000000000000000000000000000000000:x"));
	talon_ask_header(&filter);
	n = talon_store_query(talon_asked(&filter), out, sizeof out);
	events = talon_events(talon_bytes(out, n < 0 ? 0 : n));
	for (; talon_next_event(&events, &e); add(","))
		num(e.id[0]), text(e.content);
	add(" referenced="), num(talon_store_referenced(event->content));

	talon_text k = TALON_TEXT("k");
	add(" set="), num(talon_kv_set(k, event->content, 60));
	n = talon_kv_get(k, out, sizeof out);
	add(" kv="), text(talon_bytes(out, n < 0 ? 0 : n));
	talon_kv_delete(k);
	add(" there="), num(talon_kv_get(k, out, sizeof out) != TALON_NOT_FOUND);
	talon_kv_incr(TALON_TEXT("n"), 5, 0);
	add(" n="), num(talon_kv_incr(TALON_TEXT("n"), -7, 0));
	add(" take=");
	for (uint32_t i = 0; i < 3; i++, add(","))
		num(talon_take(TALON_TEXT("b"), 1 + i / 2, 1, 1500));
	int32_t friend = talon_in_set("friends", talon_bytes(event->pubkey, 32)), nobody = talon_in_set("nobody", TALON_TEXT("x"));
	add(" friend="), num(friend == 1), num(friend != TALON_NOT_FOUND), num(nobody == 1), num(nobody != TALON_NOT_FOUND);
	add(" git="), num(talon_git_has(TALON_TEXT("30617:x:y"), TALON_TEXT("")));
	n = talon_git_ref(TALON_TEXT("30617:x:y"), TALON_TEXT("refs/heads/main"), out, sizeof out);
	add(" ref="), text(talon_bytes(out, n < 0 ? 0 : n));
	talon_log(TALON_INFO, TALON_TEXT("conformance"));
	talon_metric(TALON_COUNTER, "events", 1);
	talon_metric(TALON_GAUGE, "size", 2);
	text(talon_line_text(&settings));
	return talon_retry_for(talon_reject("admit", "blocked", talon_line_text(&line)), 90);
}

static void client(talon_client c) {
	line.len = 0;
	add("address="), text(c.address);
	add(" agent="), text(c.user_agent);
	add(" origin="), text(c.origin);
	add(" path="), text(c.path);
	add(" authed="), first_bytes(talon_client_authed(c));
}

static void maybe(bool has, int64_t n) { num(has ? n : 0), num(has); }

static talon_verdict query(const talon_query *in) {
	client(in->client);
	add(" verb="), num(in->verb);
	add(" now="), num(in->now);
	talon_values filters = talon_filters(in);
	for (talon_filter f; talon_next_value(&filters, &f);) {
		add(" filter ids="), first_bytes(talon_filter_ids(f));
		add(" authors="), first_bytes(talon_filter_authors(f));
		add(" kinds=");
		talon_numbers kinds = talon_filter_kinds(f);
		for (uint64_t kind; talon_next_number(&kinds, &kind); add(","))
			num((int64_t)kind);
		add(" tags=");
		talon_values tags = talon_filter_tags(f);
		for (talon_text c; talon_next_value(&tags, &c);) {
			text(talon_condition_name(c)), add(":");
			talon_values values = talon_condition_values(c);
			for (talon_text v; talon_next_value(&values, &v); add(","))
				text(v);
		}
		int64_t n = 0;
		bool has = talon_filter_since(f, &n);
		add(" since="), maybe(has, n);
		has = talon_filter_until(f, &n);
		add(" until="), maybe(has, n);
		has = talon_filter_limit(f, &n);
		add(" limit="), maybe(has, n);
	}
	return talon_require_auth("query", talon_line_text(&line));
}

static talon_verdict connect(const talon_connect *in) {
	if (talon_same(in->client.path, TALON_TEXT("/long")))
		return talon_reject("connect", "restricted", in->client.user_agent);
	client(in->client);
	add(" open="), num(in->open);
	add(" here="), num(in->from_address);
	add(" now="), num(in->now);
	return talon_reject("connect", "restricted", talon_line_text(&line));
}

static talon_verdict push(const talon_push *in) {
	client(in->client);
	add(" repo="), text(in->repo);
	add(" maintainers="), first_bytes(talon_maintainers(in));
	talon_values updates = talon_updates(in);
	for (talon_update u; talon_next_update(&updates, &u);)
		add(" "), text(u.ref), add(":"), text(u.old), add(":"), text(u.new_);
	add(" bytes="), num(in->bytes);
	add(" stored="), num(in->stored);
	add(" prs="), num(in->prs);
	add(" now="), num(in->now);
	return talon_reject("push", "blocked", talon_line_text(&line));
}

TALON_POLICY("manifest.json", configure)
TALON_ADMIT(admit)
TALON_QUERY(query)
TALON_CONNECT(connect)
TALON_PUSH(push)

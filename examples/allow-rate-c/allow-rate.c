/* allow-rate accepts the authors on a list, each so many events in a minute. */
#include "talon.h"

static uint8_t (*allow)[32];
static uint32_t allowed;
static uint32_t burst;
static int64_t every; /* milliseconds until one event more */

static talon_configured configure(const talon_config *config) {
	uint32_t n = 0;
	talon_values authors = talon_config_strings(config, "allow");
	for (talon_text author; talon_next_value(&authors, &author);)
		n++;
	allow = talon_keep(n * sizeof *allow);
	authors = talon_config_strings(config, "allow");
	for (talon_text author; talon_next_value(&authors, &author);)
		if (!talon_parse_key(author, allow[allowed++]))
			return talon_wrong_value("allow", author, "an npub or 64 hex digits");
	burst = (uint32_t)talon_config_int(config, "burst");
	every = 60000 / talon_config_int(config, "per_minute");
	/* Spares the relay questions while there is no list. */
	return (talon_configured){.idle_admit = allowed == 0};
}

static bool is_allowed(const uint8_t *author) {
	for (uint32_t i = 0; i < allowed; i++)
		if (talon_same_key(allow[i], author))
			return true;
	return false;
}

static talon_verdict admit(const talon_admit *in) {
	const uint8_t *author = in->event.pubkey;
	if (allowed == 0)
		return talon_pass();
	if (!is_allowed(author))
		return talon_reject("not-allowed", "restricted", TALON_TEXT("only some authors may write here"));
	if (in->origin == TALON_FROM_IMPORT || in->origin == TALON_FROM_SYNC)
		return talon_accept("allowed");

	/* A bucket belongs to the name of the module's file: all instances share it, and
	 * it outlives a new version and a restart. */
	static talon_line key, reason;
	key.len = 0;
	talon_add_string(&key, "author:");
	talon_add(&key, talon_bytes(author, 32));
	int64_t wait = talon_take(talon_line_text(&key), 1, burst, every);
	if (wait == 0)
		return talon_accept("allowed");
	if (wait == TALON_NEVER)
		return talon_reject("too-fast", "rate-limited", TALON_TEXT("no events of this author are accepted at present"));
	reason.len = 0;
	talon_add_string(&reason, "too many events of this author, try again in ");
	talon_add_int(&reason, (wait + 999) / 1000);
	talon_add_string(&reason, " s");
	return talon_reject("too-fast", "rate-limited", talon_line_text(&reason));
}

TALON_POLICY("manifest.json", configure)
TALON_ADMIT(admit)

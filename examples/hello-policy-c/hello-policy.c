/* hello is the smallest useful policy: it refuses notes that shout, and has no
 * opinion about anything else. */
#include "talon.h"

static int64_t most;

static talon_configured configure(const talon_config *config) {
	most = talon_config_int(config, "max_capitals");
	return (talon_configured){0};
}

static talon_verdict admit(const talon_admit *in) {
	if (in->event.kind != 1)
		return talon_pass();
	talon_text content = in->event.content;
	int64_t row = 0;
	for (uint32_t i = 0; i < content.len; i++) {
		char c = content.at[i];
		if (c >= 'A' && c <= 'Z')
			row++;
		else if (c >= 'a' && c <= 'z')
			row = 0;
		if (row > most)
			return talon_reject("shouting", "blocked", TALON_TEXT("please do not shout"));
	}
	return talon_pass();
}

TALON_POLICY("manifest.json", configure)
TALON_ADMIT(admit)

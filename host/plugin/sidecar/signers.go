package sidecar

import (
	"fmt"
	"strings"

	"talon/sdk/nip19"
)

const maxSigners = 64

// readSigners reads who may have signed the module.
func (f *File) readSigners(t table) {
	value, ok := t.get("signers")
	if !ok {
		return
	}
	list, ok := value.([]any)
	if !ok || len(list) == 0 || len(list) > maxSigners {
		t.wrong("signers", fmt.Sprintf("a list of 1 to %d keys, such as [\"npub1…\"]", maxSigners))
		return
	}
	for _, item := range list {
		text, _ := item.(string)
		key, err := nip19.ParsePubKey(text)
		if err != nil {
			// A secret key in the wrong place must not end in a log.
			if strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), "nsec") {
				item = "nsec…"
			}
			t.wrongItem("signers", item, "an npub, or 64 lower-case hex digits")
			return
		}
		f.Signers = append(f.Signers, key)
	}
}

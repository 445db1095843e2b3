package main

import (
	"testing"

	"talon/sdk/policy"
)

func TestKeySet(t *testing.T) {
	var keys []policy.PubKey
	for i := range 1000 {
		// Many keys share a start, as an attacker may choose them.
		keys = append(keys, policy.PubKey{byte(i % 3), 0, 0, 0, byte(i), byte(i >> 8), 1})
	}
	set := newKeySet(append(keys, keys[:10]...))
	for _, key := range keys {
		if !set.has(&key) {
			t.Fatalf("%v is missing", key)
		}
		key[31] = 1
		if set.has(&key) {
			t.Fatalf("%v is in the set", key)
		}
	}
	if set.has(&policy.PubKey{}) || newKeySet(nil).has(&policy.PubKey{1}) {
		t.Error("a key that was not added is in the set")
	}
}

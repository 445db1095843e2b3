package main

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
	"talon/host/schnorr"
	"talon/host/wire"
)

func secretOf(t *testing.T, name string) (k secretKey) {
	t.Helper()
	if !host.ParseHex(k[:], key(name)) {
		t.Fatal("no hex")
	}
	return k
}

// What is signed is what a relay takes, whatever its text.
func TestSign(t *testing.T) {
	k := secretOf(t, "alice")
	for _, content := range []string{"", "é🦀", "\u0000\u001f\u007f\u2028 <&>\"\\\b\f\n\r\t", strings.Repeat("x", 1<<20)} {
		e := &host.Event{Kind: 1, CreatedAt: 1700000000, Content: content, Tags: host.Tags{{"t", content}, {"-"}}}
		if err := k.sign(e); err != nil {
			t.Fatal(err)
		}
		got, err := wire.ParseEvent(e.JSON)
		if err == nil {
			err = schnorr.Verify(got)
		}
		if err != nil || got.Content != content || got.PubKey.String() != pubkey("alice") {
			t.Errorf("%.40q: %v", content, err)
		}
	}
	for name, e := range map[string]*host.Event{
		"content that is not UTF-8": {Content: "\xff"},
		"a tag that is not UTF-8":   {Tags: host.Tags{{"t", "\xff"}}},
		"a time before 1970":        {CreatedAt: -1},
	} {
		if err := k.sign(e); err == nil || e.JSON != nil {
			t.Errorf("%s was signed", name)
		}
	}
}

// A key that is logged or formatted by mistake does not show.
func TestSecretKeyIsNotFormatted(t *testing.T) {
	k := secretOf(t, "alice")
	for _, verb := range []string{"%v", "%s", "%+v", "%#v", "%q", "%x", "%X", "%d"} {
		for _, v := range []any{k, &k, struct{ K secretKey }{k}} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(strings.ToLower(text), key("alice")[:8]) || strings.Contains(text, fmt.Sprint(k[0])+" "+fmt.Sprint(k[1])) {
				t.Errorf("%s shows the key: %s", verb, text)
			}
		}
	}
}

func TestKeyRange(t *testing.T) {
	order := curveOrder
	order[31]--
	if inRange([32]byte{}) || inRange(curveOrder) || !inRange(order) || !inRange([32]byte{31: 1}) {
		t.Error("a key is from 1 to the order of the curve less one")
	}
	a, b := newKey(), newKey()
	if a == b {
		t.Error("two new keys are the same")
	}
}

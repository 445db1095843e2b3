package relaysync

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host"
	"talon/host/schnorr"
)

func TestKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.key")
	k, err := OpenKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others can read the key", info.Mode(), err)
	}
	again, err := OpenKey(path)
	if err != nil || again.PubKey() != k.PubKey() || k.PubKey() == (host.PubKey{}) {
		t.Errorf("another key the second time, %v", err)
	}
	e := &host.Event{Kind: host.KindAuth, CreatedAt: epoch, Tags: host.Tags{{"relay", "wss://x"}, {"challenge", "\" \\ \u2028 \x01 é"}}}
	if err := k.Sign(e); err != nil {
		t.Fatal(err)
	}
	if err := schnorr.Verify(e); err != nil || e.PubKey != k.PubKey() {
		t.Errorf("what was signed: %v", err)
	}
	if list, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
}

func TestWrongKey(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "abcd", "zero": strings.Repeat("0", 64), "no hex": strings.Repeat("x", 64),
	} {
		path := filepath.Join(t.TempDir(), "relay.key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKey(path); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenKey(filepath.Join(t.TempDir(), "no", "folder", "relay.key")); err == nil {
		t.Error("a key in no folder")
	}
}

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestReload changes the file between two looks. Flags keep their values, and an error leaves the
// first configuration as it is.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "talon.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	none := func(string) (string, bool) { return "", false }
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	l := Flags(flags, Always|Deciding|Serving)
	if err := flags.Parse([]string{"--config", file, "--queue", "100"}); err != nil {
		t.Fatal(err)
	}
	write("log-level = 'warn'\nqueue = 7\nstore = 'postgres://a:secret@x/y'\n")
	first, err := l.Load(none)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := l.Reload(none); err != nil || len(first.Changes(c)) != 0 {
		t.Errorf("nothing changed: %v, %v", first.Changes(c), err)
	}
	write("queue = 8\nmin-free = '1GiB,5%'\nbatch = 9\nstore = 'postgres://a:other@x/y'\n")
	second, err := l.Reload(none)
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{"store", hidden, hidden, false}, {"min-free", "256MiB", "1GiB,5%", true}, {"log-level", "warn", "info", true}, {"batch", "512", "9", false},
	}
	if got := first.Changes(second); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if first.LogLevel != "warn" || second.Queue != 100 {
		t.Errorf("%q, %d", first.LogLevel, second.Queue)
	}
	write("min-free = 'much'\n")
	if _, err := l.Reload(none); err == nil || !strings.Contains(err.Error(), "min-free") {
		t.Errorf("got %v", err)
	}
}

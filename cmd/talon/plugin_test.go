package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/admin"
	"talon/host/plugin"
	"talon/host/plugin/sidecar"
)

// fakePlugins is what a server might say. Changes are noted.
type fakePlugins struct {
	list   []plugin.Status
	asked  []string
	refuse error
}

func (f *fakePlugins) List() []plugin.Status { return f.list }

func (f *fakePlugins) Disagreements(name string, limit int) []plugin.Disagreement {
	f.asked = append(f.asked, fmt.Sprintf("disagreements %s %d", name, limit))
	return disagreements
}

func (f *fakePlugins) Why(id host.ID) (plugin.Why, bool) {
	why := decision
	why.Event = id.String()
	return why, id.String() == noteID
}

func (f *fakePlugins) Swap(_ context.Context, name string, wasm, _ []byte) (plugin.Status, error) {
	return f.change("swap %s %s", name, wasm)
}

func (f *fakePlugins) Rollback(_ context.Context, name string, steps int) (plugin.Status, error) {
	return f.change("rollback %s %d", name, steps)
}

func (f *fakePlugins) SetMode(_ context.Context, name string, m sidecar.Mode) (plugin.Status, error) {
	return f.change("mode %s %s", name, m)
}

func (f *fakePlugins) Set(_ context.Context, name string, list []sidecar.Assignment) (plugin.Status, error) {
	return f.change("set %s %v", name, list)
}

func (f *fakePlugins) Record(_ context.Context, o plugin.Recording, write func([]byte) error) (plugin.Recorded, error) {
	f.asked = append(f.asked, fmt.Sprintf("record %q %v %d %+v", o.Plugin, o.For, o.Max, o.Redact))
	if f.refuse != nil {
		return plugin.Recorded{}, f.refuse
	}
	err := write([]byte("{}\n"))
	return plugin.Recorded{Ended: "count", Lines: 1, Bytes: 3, Functions: map[string]int{"admit": 1}, Dropped: 2, TooLarge: 1, Unseen: 1}, err
}

func (f *fakePlugins) change(format string, args ...any) (plugin.Status, error) {
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.list[0], f.refuse
}

const (
	noteID = "46d731680add2990efe1cc619dc9b8014feeb23261ab9dee50e9d11814de5a2b"
	note   = "note1gmtnz6q2m55epmlpe3semjdcq987av3jvx4emmjsa8g3s9x7tg4sclreky"
)

var (
	now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	statuses = []plugin.Status{
		{
			Name: "lists", Origin: plugin.FromFolder, Mode: sidecar.Enforce, Calls: 1234567, Failures: 2, LastFailure: "out of fuel", StateBytes: 3 << 10,
			Running: &plugin.Running{
				Generation: 3, Since: now.Add(-3 * time.Minute), SHA256: strings.Repeat("ab", 32), Manifest: "lists", Version: "v1.2",
				Summary: "Refuses authors and words", Worlds: []string{"policy"}, Place: 10, Functions: []string{"admit", "query"},
				Capabilities: []string{"log", "sets.contains"}, Fuel: 20_000_000, Memory: 64 << 20, Instances: 2, MemoryUsed: 5<<20 + 1<<19,
				Sets: []plugin.Set{{Name: "friends", From: "list 3:ab", Members: 17}},
			},
			Earlier: []plugin.Earlier{{Generation: 2, SHA256: strings.Repeat("cd", 32), Version: "v1.1", Until: now.Add(-26 * time.Hour)}},
		},
		{Name: "new", Origin: plugin.FromFolder, Mode: sidecar.Enforce, Quarantine: &plugin.Quarantine{At: now.Add(-5 * time.Second), Reason: "it imports net.dial\x1b[2J, which no module gets"}},
		{Name: "old", Mode: sidecar.Off, Quarantine: &plugin.Quarantine{Reason: "old.toml has no module beside it"}},
		{
			Name: "strict", Origin: plugin.FromBundle, Mode: sidecar.Shadow, BreakerOpen: true, Failures: 99, LastFailure: "trapped: unreachable",
			Running: &plugin.Running{
				Generation: 1, Since: now.Add(-72 * time.Hour), Version: "dev\u202e", Place: 50,
				Sets: []plugin.Set{{Name: "foes", From: "foes.txt", Problem: "line 3 is no key"}},
			},
			Quarantine:    &plugin.Quarantine{At: now.Add(-2 * time.Hour), Reason: "the file is half a module"},
			Disagreements: []plugin.Dispute{{Shadow: "reject too-long", Chain: "open accept ok", Count: 5}},
		},
		{Name: "pow", Origin: plugin.FromBundle, Mode: sidecar.Off, Unused: true},
		{Name: "spam", Origin: plugin.FromBundle, Mode: sidecar.Off, Unused: true},
	}

	disagreements = []plugin.Disagreement{{
		Event: noteID, At: now.Add(-90 * time.Second), Plugin: "strict",
		Shadow: plugin.Opinion{Plugin: "strict", Generation: 1, Action: "reject", Rule: "too-long", Reason: "blocked: too long"},
		Chain:  plugin.Opinion{Plugin: "open", Generation: 4, Action: "accept", Rule: "ok"},
	}}

	decision = plugin.Why{
		At: now.Add(-time.Hour), Source: "client", Asked: []string{"lists", "open"},
		Ruling: plugin.Opinion{Plugin: "open", Generation: 4, Action: "reject", Rule: "too-big", Reason: "invalid: too big", Fuel: 812},
		Shadow: []plugin.Opinion{{Plugin: "strict", Generation: 1, Action: "pass", Fuel: 99}},
	}
)

// serveFake serves on a data folder, and returns its path.
func serveFake(t *testing.T, f *fakePlugins) string {
	t.Helper()
	data := t.TempDir()
	l, err := admin.Listen(filepath.Join(data, "admin", "talon.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- admin.Serve(ctx, l, admin.API{Nodes: admin.Here{}, Plugins: f}, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return data
}

// run runs talon plugin in this process.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetArgs(append([]string{"plugin"}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestPluginList(t *testing.T) {
	var out bytes.Buffer
	if err := writeList(&out, statuses, now); err != nil {
		t.Fatal(err)
	}
	want := `NAME    MODE     GENERATION  VERSION    PLACE  CALLS    FAILURES  STATE    FROM
lists   enforce  3           v1.2       10     1234567  2         running  folder
new     enforce  -           -          -      0        0         refused  folder
  what lies in the folder was refused 5s ago: it imports net.dial\x1b[2J, which no module gets
old     off      -           -          -      0        0         refused  
  what lies in the folder was refused: old.toml has no module beside it
strict  shadow   1           dev\u202e  50     0        99        resting  bundled
  what lies in the folder was refused 2h ago: the file is half a module
  it has failed too often and rests for a while; the last failure: trapped: unreachable
  set foes: line 3 is no key
bundled too, and not used: pow, spam; talon plugin mode NAME enforce runs one
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	out.Reset()
	if err := writeList(&out, nil, now); err != nil || out.String() != "there are no plugins\n" {
		t.Errorf("none: %q, %v", &out, err)
	}
}

func TestPluginShow(t *testing.T) {
	var out bytes.Buffer
	if err := writeStatus(&out, &statuses[0], now); err != nil {
		t.Fatal(err)
	}
	want := `name          lists
mode          enforce
state         running
from          the folder of plugins
calls         1234567
failures      2
last failure  out of fuel
remembers     3 KiB
generation    3, since 2026-03-01T11:57:00Z (3m ago)
sha256        ` + strings.Repeat("ab", 32) + `
module        lists v1.2
summary       Refuses authors and words
worlds        policy
place         10
functions     admit query
capabilities  log sets.contains
fuel          20000000 a call
memory        64 MiB an instance at most; 5.5 MiB in 2 now

SET      MEMBERS  FROM       PROBLEM
friends  17       list 3:ab  

STEPS BACK  GENERATION  VERSION  UNTIL    SHA256
1           2           v1.1     26h ago  ` + strings.Repeat("cd", 32) + "\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	out.Reset()
	if err := writeStatus(&out, &statuses[3], now); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"state         resting\n", "problem       what lies in the folder was refused 2h ago: ", "capabilities  none\n",
		"DISAGREEMENTS  IN SHADOW        THE CHAIN\n5              reject too-long  open accept ok\n"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in\n%s", part, &out)
		}
	}
}

func TestPluginDisagreements(t *testing.T) {
	var out bytes.Buffer
	if err := writeDisagreements(&out, disagreements, now); err != nil {
		t.Fatal(err)
	}
	shadow := "reject too-long (strict, generation 1): blocked: too long"
	want := fmt.Sprintf("%-8s%-66s%-*s%s\n", "WHEN", "EVENT", len(shadow)+2, "IN SHADOW", "THE CHAIN") +
		fmt.Sprintf("%-8s%-66s%s  %s\n", "1m ago", noteID, shadow, "accept ok (open, generation 4)")
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestPluginWhy(t *testing.T) {
	why := decision
	why.Event = noteID
	var out bytes.Buffer
	if err := writeWhy(&out, &why, now); err != nil {
		t.Fatal(err)
	}
	want := `event      ` + noteID + `
from       client
decided    2026-03-01T11:00:00Z (1h ago)
ruling     reject too-big (open, generation 4)
reason     invalid: too big
fuel       812
asked      lists open
in shadow  pass (strict, generation 1), fuel 99
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	why.Ruling = plugin.Opinion{Action: "reject"}
	out.Reset()
	if err := writeWhy(&out, &why, now); err != nil || !strings.Contains(out.String(), "ruling     reject (no plugin had an opinion)\n") {
		t.Errorf("got\n%s%v", &out, err)
	}
}

func TestPluginCommands(t *testing.T) {
	f := &fakePlugins{list: statuses}
	data := serveFake(t, f)
	module := filepath.Join(t.TempDir(), "x.wasm")
	if err := os.WriteFile(module, []byte("bytes of a module"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed := "lists: mode enforce, generation 3, version v1.2, sha256 " + strings.Repeat("ab", 32) + "\n"
	tests := []struct {
		name string
		args []string
		want string // in the output
		ask  string // of the server
	}{
		{"list", []string{"list"}, "lists   enforce  3", ""},
		{"show", []string{"show", "lists"}, "name          lists\n", ""},
		{"disagreements", []string{"disagreements", "strict"}, "reject too-long", "disagreements strict 20"},
		{"disagreements with a limit", []string{"disagreements", "strict", "--limit", "3"}, noteID, "disagreements strict 3"},
		{"why by id", []string{"why", noteID}, "reject too-big", ""},
		{"why by note", []string{"why", note}, noteID, ""},
		{"why by URI", []string{"why", "nostr:" + note}, noteID, ""},
		{"swap", []string{"swap", "lists", module}, changed, "swap lists bytes of a module"},
		{"rollback", []string{"rollback", "lists"}, changed, "rollback lists 1"},
		{"rollback by steps", []string{"rollback", "lists", "--steps", "2"}, changed, "rollback lists 2"},
		{"mode", []string{"mode", "lists", "shadow"}, changed, "mode lists shadow"},
		{"record", []string{"record"}, "{}\n1 line recorded, 3 B (admit 1): there are as many as were asked for\n" +
			"2 decisions left out, for they came faster than this was read\n1 decision left out, for their facts", `record "" 1m0s 10000 {Content:false Address:false}`},
		{"record of one", []string{"record", "--plugin", "lists", "--for", "5s", "--most", "7", "--redact", "content,address"}, "recording\n{}\n",
			`record "lists" 5s 7 {Content:true Address:true}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.asked = nil
			out, err := run(t, append(tt.args, "--data", data)...)
			if err != nil || !strings.Contains(out, tt.want) || strings.Join(f.asked, ";") != tt.ask {
				t.Errorf("got %q, %v, and asked %q", out, err, f.asked)
			}
		})
	}
	t.Run("JSON", func(t *testing.T) {
		for args, into := range map[string]any{
			"list": &[]plugin.Status{}, "show lists": &plugin.Status{}, "why " + note: &plugin.Why{}, "disagreements lists": &[]plugin.Disagreement{},
		} {
			out, err := run(t, append(strings.Fields(args), "--json", "--data", data)...)
			if err != nil || json.Unmarshal([]byte(out), into) != nil || reflect.ValueOf(into).Elem().IsZero() {
				t.Errorf("%s: %v\n%s", args, err, out)
			}
		}
	})
	t.Run("environment and file", func(t *testing.T) {
		t.Setenv("TALON_DATA", data)
		if out, err := run(t, "list"); err != nil {
			t.Errorf("by the environment: %s%v", out, err)
		}
		t.Setenv("TALON_DATA", t.TempDir())
		file := filepath.Join(t.TempDir(), "talon.toml")
		if err := os.WriteFile(file, fmt.Appendf(nil, "admin-socket = %q\nlisten = '127.0.0.1:1'\n", filepath.Join(data, "admin", "talon.sock")), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := run(t, "list", "--config", file); err != nil {
			t.Errorf("by the file: %s%v", out, err)
		}
	})
}

func TestPluginErrors(t *testing.T) {
	f := &fakePlugins{list: statuses, refuse: fmt.Errorf("%w: the manifest says\x1b[2J nothing", plugin.ErrRefused)}
	data := serveFake(t, f)
	module := filepath.Join(t.TempDir(), "x.wasm")
	big := filepath.Join(t.TempDir(), "big.wasm")
	for name, size := range map[string]int64{module: 8, big: admin.MaxModule + 1} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, size); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing to do", nil, "no command was given"},
		{"no such command", []string{"frobnicate"}, "frobnicate"},
		{"unknown name", []string{"show", "none"}, "there is no plugin of this name: \"none\""},
		{"disagreements of nobody", []string{"disagreements", "none"}, "there is no plugin of this name"},
		{"limit", []string{"disagreements", "lists", "--limit", "0"}, "want a number from 1"},
		{"forgotten event", []string{"why", strings.Repeat("0", 64)}, "no decision about event 000"},
		{"no event", []string{"why", "npub1"}, `the event "npub1" is wrong: not a note, a nevent or 64 hex digits`},
		{"refused module", []string{"swap", "lists", module}, `refused: the manifest says\x1b[2J nothing`},
		{"refused rollback", []string{"rollback", "lists"}, "refused"},
		{"no such file", []string{"swap", "lists", "no-such-file"}, "no-such-file: no such file"},
		{"big file", []string{"swap", "lists", big}, "too big: want at most 32 MiB"},
		{"mode", []string{"mode", "lists", "loud"}, "want enforce, shadow or off"},
		{"refused recording", []string{"record", "--most", "5"}, "refused: the manifest says\\x1b[2J nothing"},
		{"recording for ever", []string{"record", "--for", "24h"}, `for "24h0m0s" is wrong: want a time up to 10m0s`},
		{"recording of nothing", []string{"record", "--most", "0"}, "want more than nothing"},
		{"recording of too much", []string{"record", "--most", "100001"}, `most "100001" is wrong: want a number from 1 to 100000`},
		{"recording without tags", []string{"record", "--redact", "tags"}, `redact "tags": want content, address`},
		{"missing argument", []string{"mode", "lists"}, "accepts 2 arg"},
		{"socket off", []string{"list", "--admin-socket", "off"}, "the admin socket is off"},
		{"no server", []string{"list", "--admin-socket", filepath.Join(data, "other.sock")}, "no server listens on the admin socket " + filepath.Join(data, "other.sock") + ": start one with talon serve"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if len(args) > 1 {
				args = append(args, "--data", data)
			}
			out, err := run(t, args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v; want %q", out, err, tt.want)
			}
		})
	}
}

func TestPluginText(t *testing.T) {
	for in, want := range map[string]string{
		"plain, Ωmega 日本 \"quoted\" it's": "plain, Ωmega 日本 \"quoted\" it's",
		"a\x1b[31mb\r\n\t\x00":            `a\x1b[31mb\r\n\t\x00`,
		"c1 \u009b right-to-left \u202e":  `c1 \u009b right-to-left \u202e`,
		"not utf-8 \xff":                  `not utf-8 \xff`,
	} {
		if got := plain(in); got != want || plain(got) != got {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Hour: "just now", 0: "just now", 59 * time.Second: "59s ago", 119 * time.Second: "1m ago",
		47 * time.Hour: "47h ago", 49 * time.Hour: "2d ago",
	} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 8 << 20: "8 MiB", 3 << 30: "3 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

package plugin

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"talon/host"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
)

// TestSetOfKnownPeople has two clients of one address: strangers use up what the module rate lets
// the address send, and a client with a proven key of a known person has a limit of its own.
func TestSetOfKnownPeople(t *testing.T) {
	testkit.SkipRace(t)
	rate, err := os.ReadFile(filepath.Join(plugintest.Build(t, "plugins/rate"), "rate.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	alice, eve := testkit.NewSigner(1), testkit.NewSigner(4)
	w := newWorld(t)
	w.o.CacheDir = plugintest.MachineCode(t, "plugins/rate")
	w.o.Known = func(key host.PubKey) bool { return key == host.PubKey(alice.PubKey) }
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("rate.wasm", rate)
	w.drop("rate.toml", []byte("[config]\nper_address_events_per_minute = 2\nper_address_events_burst = 1\n"))
	w.mustOpen()
	from := func(want string, proven ...host.PubKey) {
		t.Helper()
		it := &host.Item{Event: alice.Event(1, now, ""), Source: &host.Source{Addr: netip.MustParseAddr("192.0.2.1")}, Authed: proven}
		if got := w.ruled(it); got != want {
			t.Errorf("a client that has proven %d keys: %s, want %s", len(proven), got, want)
		}
	}
	const accepted, refused = "open accept v1", "rate reject address-events"
	from(accepted)
	from(refused)
	from(refused, host.PubKey(eve.PubKey))
	from(accepted, host.PubKey(eve.PubKey), host.PubKey(alice.PubKey))
	from(refused, host.PubKey(alice.PubKey))

	// A set of that name in the side-car takes its place.
	w.drop("rate.toml", []byte("[config]\nper_address_events_per_minute = 2\nper_address_events_burst = 1\n[sets.known]\nfile = \"none.txt\"\n"))
	w.change("none.txt", nil)
	from(refused, host.PubKey(alice.PubKey))
}

// TestSetOfAllowed: what the operator allows in the moderation log is not refused by lists, and has
// no limits of rate.
func TestSetOfAllowed(t *testing.T) {
	testkit.SkipRace(t)
	w := newWorld(t)
	w.o.CacheDir = plugintest.MachineCode(t, "plugins/rate", "plugins/lists")
	allowed := ""
	w.o.Allowed = func(member []byte) bool { return string(member) == allowed }
	w.drop("open.wasm", accepting("1").wasm(t))
	for name, settings := range map[string]string{"lists": "deny_words = ['spam']", "rate": "per_address_events_per_minute = 2\nper_address_events_burst = 1"} {
		module, err := os.ReadFile(filepath.Join(plugintest.Build(t, "plugins/"+name), name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		w.drop(name+".wasm", module)
		w.drop(name+".toml", []byte("[config]\n"+settings+"\n"))
	}
	w.mustOpen()
	alice := testkit.NewSigner(1)
	send := func(want, text string) {
		t.Helper()
		it := &host.Item{Event: alice.Event(1, now, text), Source: &host.Source{Addr: netip.MustParseAddr("192.0.2.1")}}
		if got := w.ruled(it); got != want {
			t.Errorf("%q with %q allowed: %s, want %s", text, allowed, got, want)
		}
	}
	send("lists reject deny-word", "spam")
	send("rate reject address-events", "spam")
	for _, allowed = range []string{string(alice.PubKey[:]), "192.0.2.1"} {
		send("open accept v1", "spam")
		send("open accept v1", "spam")
	}
	allowed = "192.0.2.2"
	send("rate reject address-events", "hello")
}

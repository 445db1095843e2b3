package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"talon/sdk/grasp"
)

// load reads a configuration from a file's text, environment and flags.
func load(t *testing.T, file string, env map[string]string, args ...string) (*Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("talon", pflag.ContinueOnError)
	loader := Flags(flags, Always|Deciding|Serving)
	if file != "" {
		path := filepath.Join(t.TempDir(), "my.toml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return loader.Load(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

func TestLaterPlacesWin(t *testing.T) {
	file := "name = 'file'\ndescription = 'file'\ncontact = 'file'\nmax-limit = 600\nmax-message = '1MiB'\n" +
		"trust-proxy = ['127.0.0.1', '10.0.0.0/8']\n"
	env := map[string]string{"TALON_DESCRIPTION": "env", "TALON_CONTACT": "env"}
	c, err := load(t, file, env, "--contact", "flag")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.Listen, c.Name, c.Description, c.Contact}
	if want := []string{"127.0.0.1:7334", "file", "env", "flag"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if c.MaxLimit != 600 || c.Message != 1<<20 || len(c.Proxies) != 2 {
		t.Errorf("got %+v", c)
	}
}

// Each error names the option, the value, and what is allowed.
func TestWrongValues(t *testing.T) {
	tests := []struct {
		name string
		file string
		env  map[string]string
		args []string
		want []string
	}{
		{"flag", "", nil, []string{"--listen", "7334"}, []string{"--listen", `"7334"`, "host:port"}},
		{"port", "", nil, []string{"--listen", "x:99999"}, []string{"--listen", "host:port"}},
		{"environment", "", map[string]string{"TALON_LOG_LEVEL": "loud"}, nil, []string{"TALON_LOG_LEVEL", `"loud"`, "debug or info or warn or error"}},
		{"file", "max-message = '1XB'", nil, nil, []string{"my.toml", "max-message", `"1XB"`, "512KiB"}},
		{"file, not a number", "max-limit = 'many'", nil, nil, []string{"max-limit", `"many"`, "from 1 to 1000000"}},
		{"too large", "", nil, []string{"--max-message", "1GiB"}, []string{"--max-message", `"1GiB"`, "to 64MiB"}},
		{"overflow", "", nil, []string{"--max-message", "99999999999999GiB"}, []string{"--max-message"}},
		{"negative", "", nil, []string{"--workers=-1"}, []string{"workers", `"-1"`, "from 0"}},
		{"unknown key", "max_limit = 5", nil, nil, []string{`no option "max_limit"`, "is max-limit meant?"}},
		{"unknown table", "[lists]\nx = 1", nil, nil, []string{`no option "lists"`}},
		{"wrong type", "name = 1.5", nil, nil, []string{"option name must be a string"}},
		{"module tables of before", "[module.lists]\ndeny = []", nil, nil, []string{"my.toml", "no option module any more", "NAME.toml beside NAME.wasm", "docs/how-to-manage-plugins.md"}},
		{"policy twice", "policy = ['lists', 'open', 'lists']", nil, nil, []string{"my.toml", "option policy", "each once"}},
		{"on-failure of before", "on-failure = 'open'", nil, nil, []string{"no option on-failure any more", "NAME.toml"}},
		{"policy by path", "", nil, []string{"--policy", "bin/open.wasm"}, []string{"--policy", "names of plugins, such as rate,lists,grasp"}},
		{"bad TOML", "name = ", nil, nil, []string{"my.toml:1:"}},
		{"domain with a scheme", "", nil, []string{"--domain", "wss://x.com"}, []string{"domain", "without scheme"}},
		{"module state of nothing", "", nil, []string{"--module-state", "0"}, []string{"module-state", `"0"`, "from 1KiB"}},
		{"module state", "", nil, []string{"--module-state", "much"}, []string{"module-state", `"much"`, "to 1024GiB"}},
		{"decisions", "", nil, []string{"--decisions=-1"}, []string{"decisions", `"-1"`, "from 0"}},
		{"admin socket", "", nil, []string{"--admin-socket", "a\x00b"}, []string{"admin-socket", "control"}},
		{"prs", "", nil, []string{"--prs", "maybe"}, []string{"prs", `"maybe"`, "true or false"}},
		{"pubkey", "", nil, []string{"--pubkey", "npub1x"}, []string{"pubkey", "npub or 64"}},
		{"signers", "", nil, []string{"--plugin-signers", "npub1x"}, []string{"plugin-signers", "npubs"}},
		{"signers that are nobody", "", nil, []string{"--plugin-signers", " ,"}, []string{"plugin-signers", "at least one key"}},
		{"programs", "", nil, []string{"--allow-exec=maybe"}, []string{"allow-exec", "true or false"}},
		{"proxy", "", nil, []string{"--trust-proxy", "all"}, []string{"trust-proxy", `"all"`, "10.0.0.0/8"}},
		{"time", "", nil, []string{"--ping", "5"}, []string{"ping", "30s"}},
		{"control characters", "", nil, []string{"--name", "a\nb"}, []string{"name", "control"}},
		{"limits against each other", "", nil, []string{"--default-limit", "9", "--max-limit", "8"}, []string{"default-limit", "9", "max-limit", "8"}},
		{"queue for three messages and nothing else", "", nil, []string{"--max-message", "1MiB", "--send-queue", "3MiB"}, []string{"send-queue", "3MiB", "max-message", "1MiB"}},
		{"queue against message", "", nil, []string{"--send-queue", "600KiB"}, []string{"send-queue", "600KiB", "max-message", "3MiB"}},
		{"missing file", "", map[string]string{"TALON_CONFIG": "/does/not/exist.toml"}, nil, []string{"/does/not/exist.toml"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := load(t, tt.file, tt.env, tt.args...)
			if err == nil {
				t.Fatalf("accepted: %+v", c)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestGoodValues(t *testing.T) {
	npub := "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
	c, err := load(t, "", nil, "--pubkey", npub, "--domain", "Relay.Example.com:8080", "--listen", "[::1]:0",
		"--trust-proxy", "10.1.2.3/8, 127.0.0.1", "--compress-from", "0", "--allow-exec", "true", "--plugin-signers", npub+", "+strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	if c.PubKey != "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d" ||
		!c.AllowExec || len(c.PluginSigners) != 2 || c.PluginSigners[0][0] != 0x3b || c.PluginSigners[1][31] != 0xab ||
		len(c.Domains) != 1 || c.Domains[0] != "relay.example.com:8080" || len(c.Proxies) != 2 || c.Proxies[0].String() != "10.0.0.0/8" || c.CompressFrom != 0 {
		t.Errorf("got %+v", c)
	}
}

func TestAdmin(t *testing.T) {
	for socket, want := range map[string]string{
		"":                "here/admin/talon.sock",
		"off":             "",
		"/run/talon/sock": "/run/talon/sock",
	} {
		c, err := load(t, "", nil, "--data", "here", "--admin-socket", socket)
		if err != nil || c.Admin() != want {
			t.Errorf("%q: got %q, %v; want %q", socket, c.Admin(), err, want)
		}
	}
}

// A command that talks to a server has no options but those that find it.
func TestOperatingScope(t *testing.T) {
	flags := pflag.NewFlagSet("talon", pflag.ContinueOnError)
	Flags(flags, Operating)
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if want := []string{"admin-socket", "config", "data"}; !reflect.DeepEqual(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// TestDefaultsRoundTrip checks that each option accepts the default that help shows, and shows it
// again.
func TestDefaultsRoundTrip(t *testing.T) {
	c := &Config{}
	lists := map[string][]string{"policy": {"b,a"}, "bootstrap": {"wss://a.example,ws://b"}, "trust-proxy": {"10.0.0.0/8,::1/128"}}
	for _, o := range c.options() {
		for _, text := range append(lists[o.name], o.preset) {
			if err := o.value.set(text); err != nil {
				t.Errorf("%s: %v", o.name, err)
				continue
			}
			shown := o.value.get()
			if err := o.value.set(shown); err != nil || o.value.get() != shown {
				t.Errorf("%s: shown as %q, which is read as %q, %v", o.name, shown, o.value.get(), err)
			}
		}
	}
}

// TestService checks the address of the relay with which modules compare URLs.
func TestService(t *testing.T) {
	for _, test := range []struct{ domain, listen, want string }{
		{"relay.example.com", "127.0.0.1:7334", "relay.example.com"},
		{"Relay.Example.com:8443", "127.0.0.1:7334", "relay.example.com:8443"},
		{"::1", "127.0.0.1:7334", "[::1]"},
		{"[::1]:80", "127.0.0.1:7334", "[::1]:80"},
		{"", "127.0.0.1:7334", "127.0.0.1:7334"},
		{"", "[::1]:7334", "[::1]:7334"},
		{"", "0.0.0.0:7334", "localhost:7334"},
		{"", "[::]:7334", "localhost:7334"},
		{"", ":7334", "localhost:7334"},
		{"", "127.0.0.1:0", "127.0.0.1"},
		{"", "[::1]:0", "[::1]"},
	} {
		c, err := load(t, "", nil, "--domain", test.domain, "--listen", test.listen)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Service(); got != test.want {
			t.Errorf("domain %q, listen %q: got %q, want %q", test.domain, test.listen, got, test.want)
		}
		if _, err := grasp.ParseService(c.Service()); err != nil {
			t.Errorf("%q: %v", c.Service(), err)
		}
	}
}

func TestPRs(t *testing.T) {
	for file, want := range map[string]bool{"": true, "prs = false": false, "prs = true": true, "prs = 'false'": false} {
		c, err := load(t, file, nil)
		if err != nil || c.PRs != want {
			t.Errorf("%q: %v, %v", file, c.PRs, err)
		}
	}
}

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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
	file := "name = 'file'\ndescription = 'file'\ncontact = 'file'\npolicy = ['a', 'b']\nmax-limit = 600\nmax-message = '1MiB'\n" +
		"[module.lists]\ndeny = ['x']\n"
	env := map[string]string{"TALON_DESCRIPTION": "env", "TALON_CONTACT": "env"}
	c, err := load(t, file, env, "--contact", "flag")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.Listen, c.Name, c.Description, c.Contact, strings.Join(c.Policy, "+")}
	if want := []string{"127.0.0.1:7334", "file", "env", "flag", "a+b"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if c.MaxLimit != 600 || c.Message != 1<<20 || !reflect.DeepEqual(c.Modules["lists"]["deny"], []any{"x"}) {
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
		{"module not a table", "module = 5", nil, nil, []string{"[module.lists]"}},
		{"bad TOML", "name = ", nil, nil, []string{"my.toml:1:"}},
		{"domain with a scheme", "", nil, []string{"--domain", "wss://x.com"}, []string{"domain", "without scheme"}},
		{"policy twice", "", nil, []string{"--policy", "a,a"}, []string{"policy", `"a,a"`, "lists,open"}},
		{"policy with a path", "", nil, []string{"--policy", "../x"}, []string{"policy", "names of modules"}},
		{"empty policy", "", nil, []string{"--policy", ""}, []string{"policy"}},
		{"pubkey", "", nil, []string{"--pubkey", "npub1x"}, []string{"pubkey", "npub or 64"}},
		{"proxy", "", nil, []string{"--trust-proxy", "all"}, []string{"trust-proxy", `"all"`, "10.0.0.0/8"}},
		{"time", "", nil, []string{"--ping", "5"}, []string{"ping", "30s"}},
		{"control characters", "", nil, []string{"--name", "a\nb"}, []string{"name", "control"}},
		{"limits against each other", "", nil, []string{"--default-limit", "9", "--max-limit", "8"}, []string{"default-limit", "9", "max-limit", "8"}},
		{"queue against message", "", nil, []string{"--send-queue", "600KiB"}, []string{"send-queue", "600KiB", "512KiB"}},
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
		"--trust-proxy", "10.1.2.3/8, 127.0.0.1", "--compress-from", "0")
	if err != nil {
		t.Fatal(err)
	}
	if c.PubKey != "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d" ||
		c.Domain != "relay.example.com:8080" || len(c.Proxies) != 2 || c.Proxies[0].String() != "10.0.0.0/8" || c.CompressFrom != 0 {
		t.Errorf("got %+v", c)
	}
}

// What help shows as an option's default, the option accepts and shows again.
func TestDefaultsRoundTrip(t *testing.T) {
	c := &Config{}
	for _, o := range c.options() {
		if err := o.value.set(o.preset); err != nil {
			t.Errorf("%s: %v", o.name, err)
			continue
		}
		shown := o.value.get()
		if err := o.value.set(shown); err != nil || o.value.get() != shown {
			t.Errorf("%s: shown as %q, which is read as %q, %v", o.name, shown, o.value.get(), err)
		}
	}
}

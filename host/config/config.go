package config

import "time"

// Config is everything an operator can choose. Sizes are in bytes.
type Config struct {
	File string // the TOML file; "" if none was read

	Listen         string
	Domain         string
	Proxies        Prefixes
	MetricsListen  string
	Name           string
	Description    string
	Contact        string
	PubKey         string // hex
	Icon           string
	Data           string
	Plugins        string
	Policy         []string
	OnFailure      string
	Fuel           int64
	ModuleMemory   int64
	LogFormat      string
	LogLevel       string
	Workers        int
	Queue          int
	Batch          int
	Readers        int
	Cache          int64
	Shutdown       time.Duration
	Connections    int
	ConnectionsPer int
	Message        int64
	MessageRate    int
	SendQueue      int64
	Subscriptions  int
	Filters        int
	Values         int
	DefaultLimit   int
	MaxLimit       int
	QueryTime      time.Duration
	Ping           time.Duration
	CompressFrom   int64
	NegSessions    int
	NegRecords     int
	NegFrame       int64
	NegIdle        time.Duration

	// Modules holds the tables [module.NAME] of the file: what each module is
	// told. The module's own manifest says what is allowed in them.
	Modules map[string]map[string]any
}

// Scope says which commands an option is for.
type Scope uint8

const (
	Always   Scope = 1 << iota // every command that touches data
	Deciding                   // commands that run the policy
	Serving                    // talon serve
)

// options is the list of all options. What it says is all there is: help, flags,
// environment and file follow it.
func (c *Config) options() []*option {
	return []*option{
		opt("data", Always, "data", text(&c.Data, required), "`folder` of the database and caches"),
		opt("log-format", Always, "text", enum(&c.LogFormat, "text", "json"), "how log lines are written: `text` or json"),
		opt("log-level", Always, "info", enum(&c.LogLevel, "debug", "info", "warn", "error"), "least `level` that is logged: debug, info, warn or error"),

		opt("plugins", Deciding, besideProgram, text(&c.Plugins, required), "`folder` of the modules, one NAME.wasm each"),
		opt("policy", Deciding, "lists,open", names(&c.Policy), "the policy modules by `name`, in the order in which they decide"),
		opt("on-failure", Deciding, "closed", enum(&c.OnFailure, "closed", "open"), "what becomes of an event when a module fails: `closed` refuses it, open asks the next module"),
		opt("module-fuel", Deciding, "20000000", integer(&c.Fuel, 10_000, 1e12), "most `units` of fuel that a module may ask for per decision; one is about an instruction"),
		opt("module-memory", Deciding, "64MiB", size(&c.ModuleMemory, 1<<20, 4<<30), "most `bytes` of memory that a module may ask for, per instance"),
		opt("workers", Deciding, "0", integer(&c.Workers, 0, 1024), "`goroutines` that verify and decide; 0 means one per processor"),
		opt("queue", Deciding, "4096", integer(&c.Queue, 1, 1<<20), "`events` that may wait for the writer before senders must wait"),
		opt("batch", Deciding, "512", integer(&c.Batch, 1, 1<<16), "most `events` of one commit"),

		opt("listen", Serving, "127.0.0.1:7334", address(&c.Listen), "`address` to serve on"),
		opt("domain", Serving, "", domain(&c.Domain), "`host[:port]` under which clients reach this relay; empty means what each client asked for"),
		opt("trust-proxy", Serving, "", prefixes(&c.Proxies), "`networks` of reverse proxies whose X-Forwarded-For is believed, such as 127.0.0.1/32"),
		opt("metrics-listen", Serving, "", address(&c.MetricsListen), "`address` for /metrics and /healthz alone; empty serves them on --listen"),
		opt("name", Serving, "Talon", text(&c.Name, nil), "the relay's `name` (NIP-11)"),
		opt("description", Serving, "", text(&c.Description, nil), "what the relay is for, as a `sentence` (NIP-11)"),
		opt("contact", Serving, "", text(&c.Contact, nil), "`address` of the operator, such as mailto:me@example.com (NIP-11)"),
		opt("pubkey", Serving, "", pubkey(&c.PubKey), "the operator's `key`, npub or hex (NIP-11)"),
		opt("icon", Serving, "", text(&c.Icon, nil), "`URL` of a picture of the relay (NIP-11)"),
		opt("shutdown", Serving, "5s", duration(&c.Shutdown, 0, time.Hour), "`time` that connections get to end when the relay stops"),

		opt("max-connections", Serving, "10000", integer(&c.Connections, 1, 1e6), "`connections` at once"),
		opt("max-connections-per-address", Serving, "100", integer(&c.ConnectionsPer, 1, 1e6), "`connections` at once from one IPv4 address or IPv6 /64; loopback is exempt"),
		opt("max-message", Serving, "512KiB", size(&c.Message, 1<<10, 64<<20), "`bytes` of one message"),
		opt("max-message-rate", Serving, "10000", integer(&c.MessageRate, 1, 1e6), "`messages` a second of one connection; reading pauses above it"),
		opt("send-queue", Serving, "4MiB", size(&c.SendQueue, 64<<10, 1<<30), "`bytes` that may wait for one slow reader before it is cut off"),
		opt("max-subscriptions", Serving, "64", integer(&c.Subscriptions, 1, 1e5), "`subscriptions` of one connection"),
		opt("max-filters", Serving, "20", integer(&c.Filters, 1, 1000), "`filters` of one REQ or COUNT"),
		opt("max-values", Serving, "2000", integer(&c.Values, 1, 1e6), "`values` of one filter, all its lists together"),
		opt("default-limit", Serving, "500", integer(&c.DefaultLimit, 1, 1e6), "stored `events` for a filter without a limit"),
		opt("max-limit", Serving, "5000", integer(&c.MaxLimit, 1, 1e6), "stored `events` for a filter that asks for more"),
		opt("query-time", Serving, "10s", duration(&c.QueryTime, 100*time.Millisecond, time.Hour), "`time` of one read of the database"),
		opt("ping", Serving, "1m", duration(&c.Ping, time.Second, time.Hour), "`time` of silence before a connection is pinged"),
		opt("compress-from", Serving, "4KiB", size(&c.CompressFrom, 0, 64<<20), "`bytes` from which a message is compressed for clients that can; 0 never compresses"),
		opt("max-neg-sessions", Serving, "256", integer(&c.NegSessions, 1, 1e5), "negentropy `sessions` at once (NIP-77)"),
		opt("max-neg-records", Serving, "1000000", integer(&c.NegRecords, 1, 1e8), "`events` of one negentropy session"),
		opt("neg-frame", Serving, "64KiB", size(&c.NegFrame, 4<<10, 4<<20), "`bytes` of one negentropy message of ours"),
		opt("neg-idle", Serving, "1m", duration(&c.NegIdle, time.Second, time.Hour), "`time` after which a silent negentropy session ends"),

		opt("cache", Always, "256MiB", size(&c.Cache, 1<<20, 1<<40), "`bytes` of events and database pages that are kept in memory"),
		opt("readers", Always, "0", integer(&c.Readers, 0, 256), "`queries` that read the database at once; 0 means two per processor"),
	}
}

// Package config reads and checks the operator's options: defaults, then the file, then
// the environment, then flags, each overriding the one before.
//
// Invariants:
//
//  1. One list, [Config.options], has every option with its name, default,
//     help and check. Help, file, environment and flags are read from that list.
//  2. A wrong value names the option, where it was set, the value, and what is
//     allowed.
//  3. A key that no option has is an error, never ignored.
//
// It knows nothing of what the values are for, and opens no file but its own.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Config is everything an operator can choose. Sizes are in bytes.
type Config struct {
	File string // the TOML file; "" if none was read

	// Compiler is our own command that compiles a module (guest.ServeCompile). It is no
	// option. Nil: modules are compiled in this process.
	Compiler []string

	// A certificate for each domain is asked for, and Listen speaks TLS.
	ACME          bool
	ACMEEmail     string
	ACMEDirectory string

	Listen      string
	Domains     []string // as they were written; see [Config.Service]
	PRs         bool
	Proxies     []netip.Prefix
	Git         string
	PackSize    int64
	PackObjects int64
	PackDepth   int
	PackBytes   int64
	PackTimes   int64
	GitCPU      time.Duration
	GitDisk     int64
	PullRefs    int
	GitBranch   string
	GitFetches  int
	GitPushes   int
	GitTime     time.Duration
	Maintenance time.Duration

	Hunt               bool
	HuntRequests       int
	HuntDomainRequests int
	HuntDomainRate     int
	AllowPrivate       bool

	Sync          bool
	SyncPush      bool
	SyncRelays    int // connected to at the same time
	SyncSubs      int // open on one relay
	SyncRequests  int // that begin in a second on one relay
	Bootstrap     []string
	MetricsPrefix string

	MetricsListen  string
	Name           string
	Description    string
	Software       string
	Contact        string
	AuthChallenge  string
	PubKey         string // hex
	Known          [][32]byte
	Operators      [][32]byte
	Moderators     [][32]byte
	Reporters      [][32]byte
	Icon           string
	Data           string
	Node           string // empty: host name and port
	PluginsNode    string // empty: none
	GitData        string // as it was written; see [Config.GitFolder]
	MinFree        int64
	MinFreePercent float64
	Drain          time.Duration
	Confirm        time.Duration
	Standby        bool
	Store          string   // as it was written; see [Config.Postgres]
	Plugins        string   // as it was written; see [Config.PluginFolder]
	Policy         []string // nil: every policy of the folder
	AllowExec      bool
	PluginSigners  [][32]byte
	Fuel           int64
	ModuleMemory   int64
	ModuleState    int64
	AdminSocket    string // as it was written; see [Config.Admin]
	Decisions      int
	LogFormat      string
	LogLevel       string
	Workers        int
	Queue          int
	Batch          int
	Readers        int
	Memory         int64
	Cache          int64
	Shutdown       time.Duration
	Connections    int
	ConnectionsPer int
	Message        int64
	MessageRate    int
	SendQueue      int64
	Subscriptions  int

	SubscriptionValues int // of one connection, and of one network; 0: by memory
	Filters            int
	Values             int
	DefaultLimit       int
	MaxLimit           int
	QueryTime          time.Duration
	Ping               time.Duration
	CompressFrom       int64
	NegSessions        int
	NegRecords         int
	NegFrame           int64
	NegIdle            time.Duration
}

// Admin returns the path of the socket on which a server takes the operator's commands,
// "" if there is none.
func (c *Config) Admin() string {
	switch c.AdminSocket {
	case "":
		return filepath.Join(c.Data, "admin", "talon.sock")
	case "off":
		return ""
	}
	return c.AdminSocket
}

// PluginFolder returns the folder of the operator's modules and side-cars.
func (c *Config) PluginFolder() string { return cmp.Or(c.Plugins, filepath.Join(c.Data, "plugins")) }

// GitFolder returns the folder of the repositories and of the relay's own key.
func (c *Config) GitFolder() string { return cmp.Or(c.GitData, c.Data) }

// Postgres returns the connection string of the database, "" if that is a file in the
// data folder. An error never has what it was read from: there may be a password in it.
func (c *Config) Postgres() (string, error) {
	if c.Store == "" || isPostgres(c.Store) {
		return c.Store, nil
	}
	if strings.Contains(c.Store, "://") {
		return "", errors.New("the value of option store is wrong: it begins with neither postgres:// nor postgresql://")
	}
	text, err := os.ReadFile(c.Store)
	if err != nil {
		return "", fmt.Errorf("the value of option store is wrong: it is neither a connection string nor a file that can be read: %w", err)
	}
	line := strings.TrimSpace(string(text))
	if !isPostgres(line) || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("the value of option store is wrong: file %s does not have one line that begins with postgres://", c.Store)
	}
	return line, nil
}

func isPostgres(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// Service returns the relay's address from outside, host or host:port as in a URL: the first of
// its domains, or else what it listens on. Where that is every address, it is localhost; a
// port that the system chooses is left out.
func (c *Config) Service() string {
	if len(c.Domains) > 0 {
		return inURL(c.Domains[0])
	}
	name, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "localhost"
	}
	if ip, err := netip.ParseAddr(name); name == "" || err == nil && ip.IsUnspecified() {
		name = "localhost"
	}
	if port == "0" {
		return inURL(name)
	}
	return net.JoinHostPort(name, port)
}

// Names returns all addresses of the relay from outside, Service first.
func (c *Config) Names() []string {
	names := []string{c.Service()}
	for _, name := range c.Domains[min(1, len(c.Domains)):] {
		names = append(names, inURL(name))
	}
	return names
}

// inURL puts an IPv6 address into brackets.
func inURL(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		return "[" + host + "]"
	}
	return host
}

// Scope is the set of commands that have an option.
type Scope uint8

const (
	Always    Scope = 1 << iota // every command that touches data
	Deciding                    // commands that run the policy
	Serving                     // talon serve
	Operating                   // commands that talk to a running server
	Checking                    // talon check
)

// options returns the list of all options. Help, flags, environment and file have exactly these.
func (c *Config) options() []*option {
	return []*option{
		opt("data", Always|Operating, "data", text(&c.Data, required), "`folder` of the database and caches"),
		opt("store", Always, "", text(&c.Store, nil), "`database` of the events: empty means a file in the data folder; postgres://USER@HOST/DATABASE, or the path of a file that has such a line, means PostgreSQL 15 or later"),
		opt("git-data", Always, "", text(&c.GitData, nil), "`folder` of the repositories and of the relay's own key, which all nodes of a relay share; empty means the data folder"),
		opt("min-free", Serving, "256MiB", minFree(&c.MinFree, &c.MinFreePercent), "`space`, such as 1GiB, 5% or both with a comma, that must be free on the disks of the data: with less, writes and pushes are refused, and reads go on; 0 means no bound"),
		opt("log-format", Always, "text", enum(&c.LogFormat, "text", "json"), "how log lines are written: `text` or json"),
		opt("log-level", Always, "info", enum(&c.LogLevel, "debug", "info", "warn", "error"), "least `level` that is logged: debug, info, warn or error"),

		opt("plugins", Deciding, "", text(&c.Plugins, nil), "`folder` of your modules, one NAME.wasm each; NAME.toml says how it runs, and how the bundled module of that name does; empty means plugins in the data folder"),
		opt("policy", Deciding, "", names(&c.Policy), "`names` of the policies that decide, in the order in which they are asked, with commas between them; each other policy is off; empty means all that run, by their places"),
		opt("allow-exec", Deciding, "false", boolean(&c.AllowExec), "`true` or false: let side-cars name programs (exec), which then run with the rights of the relay"),
		opt("plugin-signers", Deciding, "", signers(&c.PluginSigners), "`keys` with commas between them, npub or hex: only modules that one of them has signed run; empty means any module"),
		opt("module-fuel", Deciding, "20000000", integer(&c.Fuel, 10_000, 1e12), "most `units` of fuel that a policy may ask for per call, a strategy or throttle 20 times that; one is about an instruction"),
		opt("module-memory", Deciding, "64MiB", size(&c.ModuleMemory, 1<<20, 4<<30), "most `bytes` of memory that a policy may ask for, per instance; a strategy or throttle twice that"),
		opt("module-state", Deciding, "8MiB", size(&c.ModuleState, 1<<10, 1<<40), "most `bytes` that a module may remember, if its side-car says nothing else"),
		opt("domain", Deciding|Checking, "", domains(&c.Domains), "`host[:port]` under which this relay and its repositories are reached, then other names of it with commas between them, such as an onion service: AUTH may name them, and Talon does not connect to them; empty means the address that it serves on"),
		opt("prs", Deciding, "true", boolean(&c.PRs), "`true` or false: take pull requests under /prs/ for repositories elsewhere (GRASP-06)"),
		opt("workers", Deciding, "0", integer(&c.Workers, 0, 1024), "`goroutines` that verify and decide; 0 means one per processor"),
		opt("queue", Deciding, "4096", integer(&c.Queue, 1, 1<<20), "`events` that may wait for the writer before senders must wait"),
		opt("batch", Deciding, "512", integer(&c.Batch, 1, 1<<16), "most `events` of one commit"),

		opt("listen", Serving|Checking, "127.0.0.1:7334", address(&c.Listen), "`address` to serve on"),
		opt("acme", Serving, "false", boolean(&c.ACME), "`true` or false: speak TLS on --listen, with a certificate for each --domain from a certificate authority (ACME), whose terms you then agree to; the authority must reach them at port 443"),
		opt("acme-email", Serving, "", text(&c.ACMEEmail, nil), "`address` under which the certificate authority reaches you"),
		opt("acme-directory", Serving, "https://acme-v02.api.letsencrypt.org/directory", text(&c.ACMEDirectory, required), "`URL` of the directory of the certificate authority"),
		opt("node", Serving, "", text(&c.Node, nil), "`name` of this server among those that write to one database of PostgreSQL; empty means its host name and port"),
		opt("plugins-node", Serving, "", text(&c.PluginsNode, nil), "`name` of the node whose folder of plugins is followed where several servers write to one database of PostgreSQL; empty means none: talon plugin changes them"),
		opt("confirm", Serving, "60s", duration(&c.Confirm, time.Second, 24*time.Hour), "`time` for which a node serves on without a look into the moderation log of a shared database; then it answers 503 to readers"),
		opt("drain", Serving, "0s", duration(&c.Drain, 0, time.Hour), "`time` for which /healthz says draining before the server stops, so that a proxy sends no more clients"),
		opt("standby", Serving, "false", boolean(&c.Standby), "`true` or false: where another Talon writes to the database of PostgreSQL, wait until it has ended, and take its place"),
		opt("trust-proxy", Serving, "", prefixes(&c.Proxies), "`networks` of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, such as 127.0.0.1/32"),
		opt("git", Serving|Checking, "git", text(&c.Git, required), "`program` of git, 2.39 or later: a name in the PATH, or a path"),
		opt("pack-size", Serving, "2GiB", size(&c.PackSize, 1<<20, 1<<40), "most `bytes` of one push"),
		opt("pack-objects", Serving, "20000000", integer(&c.PackObjects, 1, 1<<32-1), "most `objects` of one push"),
		opt("pack-depth", Serving, "500", integer(&c.PackDepth, 1, 4095), "most `deltas` of a push or fetch one on the other; git makes 50"),
		opt("pack-inflated", Serving, "1024GiB", size(&c.PackBytes, 1<<20, 1<<50), "most `bytes` that all objects of one push or fetch have together, inflated"),
		opt("pack-expansion", Serving, "2000", integer(&c.PackTimes, 1, 1e9), "most `times` its own size that a push or fetch may inflate to, beyond 512 MiB; a push for events that are not here a tenth, beyond 64 MiB"),
		opt("git-cpu", Serving, "10m", duration(&c.GitCPU, 0, 24*time.Hour), "processor `time` that git may take in an hour for the pushes of one IPv4 address or IPv6 /64; a push may begin while something is left; loopback is exempt; 0 means no bound"),
		opt("git-disk", Serving, "8GiB", size(&c.GitDisk, 0, 1<<50), "`bytes` that the pushes of one IPv4 address or IPv6 /64 may store in an hour; a push may begin while something is left; loopback is exempt; 0 means no bound"),
		opt("pull-refs", Serving, "100", integer(&c.PullRefs, 0, 1e6), "`refs` for pull requests that are not here yet which one IPv4 address or IPv6 /64 may push in an hour; loopback is exempt; 0 means no bound"),
		opt("git-default-branch", Serving, "master", text(&c.GitBranch, branch), "`branch` that HEAD of a new repository names until a state event names another"),
		opt("git-fetches", Serving, "0", integer(&c.GitFetches, 0, 4096), "`clones` and fetches that git works on at once; 0 means two per processor, at least four"),
		opt("git-pushes", Serving, "0", integer(&c.GitPushes, 0, 4096), "`pushes` that git works on at once; 0 means one per processor, at least four"),
		opt("git-time", Serving, "1h", duration(&c.GitTime, time.Second, 7*24*time.Hour), "`time` that one clone, fetch or push may take"),
		opt("maintenance", Serving, "24h", duration(&c.Maintenance, 0, 365*24*time.Hour), "`time` between two rounds of git maintenance of all repositories; 0 means never"),
		opt("hunt", Serving, "true", boolean(&c.Hunt), "`true` or false: fetch the git data of events that wait for it from the servers that their announcements name (GRASP-02)"),
		opt("hunt-requests", Serving, "32", integer(&c.HuntRequests, 1, 1024), "most `requests` to git servers at once, whatever a throttle says"),
		opt("hunt-domain-requests", Serving, "16", integer(&c.HuntDomainRequests, 1, 1024), "most `requests` to one domain at once, whatever a throttle says"),
		opt("hunt-domain-rate", Serving, "120", integer(&c.HuntDomainRate, 1, 256), "most `requests` to one domain in a minute, whatever a throttle says"),
		opt("sync", Serving, "true", boolean(&c.Sync), "`true` or false: follow the relays that announcements of repositories here name (GRASP-02)"),
		opt("bootstrap", Serving, "", relays(&c.Bootstrap), "`relays` to be connected to always, with commas between them, such as wss://relay.example.com"),
		opt("sync-connections", Serving, "200", integer(&c.SyncRelays, 1, 10_000), "`relays` to be connected to at once; others are visited in turn"),
		opt("sync-subscriptions", Serving, "70", integer(&c.SyncSubs, 1, 1000), "most `subscriptions` open on one relay, whatever it allows"),
		opt("sync-requests", Serving, "20", integer(&c.SyncRequests, 1, 1000), "most `requests` that begin on one relay in a second, after a burst of ten times as many"),
		opt("sync-push", Serving, "false", boolean(&c.SyncPush), "`true` or false: send relays the events that they lack, if the strategy asks for it"),
		opt("metrics-prefix", Serving, "talon", prefix(&c.MetricsPrefix), "`name` that metrics begin with"),
		opt("allow-private", Serving, "false", boolean(&c.AllowPrivate), "`true` or false: connect to servers in private networks and on this machine, if events name them"),
		opt("admin-socket", Serving|Operating, "", text(&c.AdminSocket, nil), "`path` of the socket for talon plugin, in a folder of its own; empty means admin/talon.sock in the data folder, off means none"),
		opt("decisions", Serving, "100000", integer(&c.Decisions, 0, 1e8), "`decisions` that talon plugin why can explain; 0 remembers none"),
		opt("metrics-listen", Serving, "", address(&c.MetricsListen), "`address` for /metrics and /healthz alone; empty serves them on --listen"),
		opt("name", Serving, "Talon", text(&c.Name, nil), "the relay's `name` (NIP-11)"),
		opt("description", Serving, "", text(&c.Description, nil), "the purpose of the relay, as a `sentence` (NIP-11); empty means the texts of its policies"),
		opt("software", Serving, "", text(&c.Software, webURL), "`URL` that identifies the software (NIP-11); empty means the page of this relay, which names it"),
		opt("contact", Serving, "", text(&c.Contact, nil), "`address` of the operator, such as mailto:me@example.com (NIP-11)"),
		opt("known", Serving, "", pubkeys(&c.Known), "`keys` with commas between them, npub or hex: of people who have a part of all shared limits that strangers cannot use, beside the operator and the people of repositories that were served for seven days"),
		opt("operators", Deciding, "", pubkeys(&c.Operators), "`keys` with commas between them, npub or hex: of people who may call every method of the management API (NIP-86)"),
		opt("moderators", Deciding, "", pubkeys(&c.Moderators), "`keys` with commas between them, npub or hex: of people who may ban events and authors through the management API (NIP-86)"),
		opt("reporters", Deciding, "", pubkeys(&c.Reporters), "`keys` with commas between them, npub or hex: of people whose reports (NIP-56) are stored, and fill the queue of talon moderate queue, beside operators and moderators"),
		opt("pubkey", Serving, "", pubkey(&c.PubKey), "the operator's `key`, npub or hex (NIP-11)"),
		opt("icon", Serving, "", text(&c.Icon, nil), "`URL` of a picture of the relay (NIP-11)"),
		opt("auth-challenge", Serving, "demand", enum(&c.AuthChallenge, "connect", "demand"), "when clients get the challenge of NIP-42: as soon as they `connect`, or on demand, before the first answer that says auth-required"),
		opt("shutdown", Serving, "5s", duration(&c.Shutdown, 0, time.Hour), "`time` that connections get to end when the relay stops"),

		opt("max-connections", Serving, "10000", integer(&c.Connections, 1, 1e6), "`connections` at once"),
		opt("max-connections-per-address", Serving, "100", integer(&c.ConnectionsPer, 1, 1e6), "`connections` at once from one IPv4 address or IPv6 /64; loopback is exempt"),
		opt("max-message", Serving, "3MiB", size(&c.Message, 1<<10, 64<<20), "`bytes` of one message; the state of a repository with 20,000 branches and tags has about 2 MiB"),
		opt("max-message-rate", Serving, "10000", integer(&c.MessageRate, 1, 1e6), "`messages` a second of one connection; reading pauses above it"),
		opt("send-queue", Serving, "12MiB", size(&c.SendQueue, 64<<10, 1<<30), "`bytes` that may wait for one slow reader before it is cut off"),
		opt("max-subscriptions", Serving, "64", integer(&c.Subscriptions, 1, 1e5), "`subscriptions` of one connection"),
		opt("max-subscription-values", Serving, "0", integer(&c.SubscriptionValues, 0, 1e7),
			"`values` that all filters of one connection's subscriptions may have, and those of one network; the relay takes eight times as many; 0 means what an eighth of a quarter of the memory holds, at most 200000"),
		opt("max-filters", Serving, "100", integer(&c.Filters, 1, 1000), "`filters` of one REQ or COUNT"),
		opt("max-values", Serving, "2000", integer(&c.Values, 1, 1e6), "`values` of one filter, all its lists together"),
		opt("default-limit", Serving, "500", integer(&c.DefaultLimit, 1, 1e6), "stored `events` for a filter without a limit"),
		opt("max-limit", Serving, "5000", integer(&c.MaxLimit, 1, 1e6), "stored `events` for a filter that asks for more"),
		opt("query-time", Serving, "10s", duration(&c.QueryTime, 100*time.Millisecond, time.Hour), "`time` of one read of the database"),
		opt("ping", Serving, "30s", duration(&c.Ping, time.Second, time.Hour), "`time` without a byte from a client, or to it, after which it is pinged; a client that does not answer in as much again, at most 30 s, is cut off"),
		opt("compress-from", Serving, "4KiB", size(&c.CompressFrom, 0, 64<<20), "`bytes` from which a message is compressed for clients that can; 0 never compresses"),
		opt("max-neg-sessions", Serving, "256", integer(&c.NegSessions, 1, 1e5), "negentropy `sessions` at once (NIP-77)"),
		opt("max-neg-records", Serving, "1000000", integer(&c.NegRecords, 1, 1e8), "`events` of one negentropy session"),
		opt("neg-frame", Serving, "64KiB", size(&c.NegFrame, 4<<10, 4<<20), "`bytes` of one negentropy message of ours"),
		opt("neg-idle", Serving, "1m", duration(&c.NegIdle, time.Second, time.Hour), "`time` after which a silent negentropy session ends"),

		opt("memory", Always, "0", orZero(&c.Memory, size(&c.Memory, 64<<20, 1<<44)), "`bytes` of memory to stay within, the cache included; 0 means a quarter of what the machine or the container has, at most 1GiB"),
		opt("cache", Always, "0", orZero(&c.Cache, size(&c.Cache, 1<<20, 1<<40)), "`bytes` of events and database pages that are kept in memory; 0 means half of --memory, at most 256MiB"),
		opt("readers", Always, "0", integer(&c.Readers, 0, 256), "`queries` that read the database at once; 0 means two per processor"),
	}
}

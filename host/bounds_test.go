package host

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tests of this file keep the table of bounds whole: a limit that clients share has a row in
// docs/reference-bounds.md, made by package bound from the value that limits.

// limitFields says for each field of a Limits or Quota struct which row of the table of bounds it
// has (Field = row), or why it has none (Field: reason). A limit of one connection, message or
// request needs none: strangers cannot fill it for others.
const limitFields = `
relay.Limits
	Connections = websockets
	ConnectionsPerAddr: of one address
	PartialBytes = long messages that are not complete
	SubscriptionsTotal = subscriptions
	LiveBytes = live events
	ValuesTotal = values of subscriptions
	NegSessionsTotal = negentropy sessions
	NegRecordsTotal = records of negentropy sessions
	Wire, MessageBytes, DefaultLimit, MaxLimit: of one message
	MessagesPerSecond, MessageBurst, BadMessages, QueueBytes, EventsInFlight, EventBytes: of one connection
	Subscriptions, EqualSubscriptions, Values, AuthedKeys, NegSessions, NegRecords, NegFrameBytes: of one connection
	NegIdle, QueryTime, MessageTime, WriteTime, PingInterval, PongTime, DrainTime: a length of time
	CompressFrom: a size from which messages are compressed
wire.Limits
	SubID, Filters, Values: of one message
githttp.Limits
	CPU = processor time of pushes
	Walk = processor time to check what fetches want
	Disk = disk of pushes
	Thin = completion of thin packs by network
	BodyBytes = requests, commands and lists of refs in memory
	Opening = pushes that are not authorised yet
	ThinEarly, FetchBytes, PushBytes, Commands, CommandBytes, DrainBytes: of one request
	Stall, Whole, GitTime, OpeningTime, LockTime, DrainTime: a length of time
gitrepo.ClassLimits
	Slots = git processes of the class fetch that work
	Queue = git tasks of the class fetch
	Wait: a length of time
	Nice: a priority
gitrepo.PackLimits
	Objects, Depth, Inflated, Free, Expansion: of one pack
gitfetch.Limits
	Thin = completion of thin packs of the hunt
	Connections: to one address, which others name
	Bytes, Objects, Refs, RefBytes, Rate: of one fetch
	Whole, Stall: a length of time
ingest.Quota
	ByAuthor, ByNetwork: of events in purgatory, whose rules are in host/purgatory
semantics.HeldLimits
	Events, ByAuthor, Bytes, Dependents, ByParent, Placeholders, Verdicts, VerdictsByAuthor, VerdictBytes: of events in purgatory, whose rules are in host/purgatory
guest.Limits
	Fuel, Memory, Output, Time, Reads, Bytes, HostCalls, LogLines, LogLineBytes, LogRate: of one module, which the operator chose
host.UsageLimits
	Author, Repository: of one author or repository
host.ClientLimits
	Connections, Subscriptions, Filters, Events, Queries, BytesIn, BytesOut: of one client
negentropy.ClientLimits
	Frame, IDs, Rounds: of one comparison that the server or a command begins
relaysync.Limits
	Scans: of the server's own comparisons
	Refused = events of other relays that were refused here
	MessageBytes, QueueBytes, Records, Holdings, InfoBytes: of one relay
	RelayLabels: of labels of metrics
	ConnectTime, RefusedAge: a length of time
loop.Limits
	Connections = relays that only held announcements name
	Dials, Relays, Timers, Actions, AnswerBytes, Answers, Filters, Values, AllValues: of the strategy, which the operator chose
	FailTime, SaveEvery: a length of time
	Retry: its own fields
retry.Limits
	Events, Bytes: of refused events from relays, shared by relay
	Tries: of one event
	Age, Ahead: a length of time
session.Limits
	Subscriptions, Fetches, Waiting, InFlight, EventBytes, Violations, Notices, PageEvents, Rounds, Need, Push: of one relay
	Page, Chunk, Chunks, Requests, Burst: of one relay
	AnswerTime, PageTime, PingAfter, PongTime: a length of time
`

// simulations are packages for simulations and tests: no client reaches them.
var simulations = []string{"relaymodel", "relaymodel/server", "plugin/wasmtest", "plugin/plugintest", "store/storetest", "relaysync/relaysynctest"}

// eachSource calls yield with every file of the host that clients can reach, and its package's
// folder below host.
func eachSource(t *testing.T, yield func(pkg string, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		pkg := filepath.ToSlash(filepath.Dir(path))
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || slices.Contains(simulations, pkg):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err == nil {
			yield(pkg, fset, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// structs calls yield with each struct type that a file declares.
func structs(file *ast.File, yield func(name string, s *ast.StructType)) {
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				yield(spec.Name.Name, s)
			}
		}
		return true
	})
}

// TestLimitsHaveRows fails for a field of a Limits or Quota struct that limitFields does not name.
// It also fails for a name without a field, and for a row that the table of bounds does not have.
func TestLimitsHaveRows(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("..", "docs", "reference-bounds.md"))
	if err != nil {
		t.Fatal(err)
	}
	stated, current := map[string]string{}, ""
	for line := range strings.SplitSeq(strings.TrimSpace(limitFields), "\n") {
		if !strings.HasPrefix(line, "\t") {
			current = line
			continue
		}
		line = strings.TrimSpace(line)
		if field, row, ok := strings.Cut(line, " = "); ok {
			stated[current+"."+field] = row
			if !strings.Contains(string(table), "\n| "+row+" |") {
				t.Errorf("%s.%s has the row %q, which docs/reference-bounds.md lacks", current, field, row)
			}
			continue
		}
		fields, reason, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("limitFields: %q is neither Field = row nor Field: reason", line)
		}
		for field := range strings.SplitSeq(fields, ", ") {
			stated[current+"."+field] = reason
		}
	}
	found := map[string]bool{}
	suffix := regexp.MustCompile(`(^|[a-z])(Limits|Quota)$`)
	eachSource(t, func(pkg string, fset *token.FileSet, file *ast.File) {
		structs(file, func(name string, s *ast.StructType) {
			if !suffix.MatchString(name) || !ast.IsExported(name) {
				return
			}
			for _, f := range s.Fields.List {
				for _, id := range f.Names { // an embedded one has its own
					field := fmt.Sprintf("%s.%s.%s", file.Name.Name, name, id.Name)
					found[field] = true
					if stated[field] == "" {
						t.Errorf("%s: %s has no row in the table of bounds and no stated reason: see limitFields", fset.Position(id.Pos()), field)
					}
				}
			}
		})
	})
	for field := range stated {
		if !found[field] {
			t.Errorf("limitFields names %s, which there is not", field)
		}
	}
}

// ownBounds are the semaphores and maps by client that are not in package bound, each with the
// reason. The last element of a name is the variable or field.
var ownBounds = map[string]string{
	"repos.slots":     "jobs of the reconciler, one for each repository: its own queue has turns",
	"plugin.culprit":  "whose events a module failed on, the latest maxCulprits: one that falls out is asked again",
	"plugin.sources":  "the same of one window of windowTime",
	"plugin.slots":    "programs of the operator; decisions that wait for one have shares by module in host/ingest",
	"gitfetch.looks":  "questions of the hunt to the store, each short; rounds have a bound of their own",
	"relaysync.scans": "comparisons that the strategy asks for",
	"relay.builds":    "sets for negentropy; sessions have a row, and each build ends after Limits.QueryTime",
	"relay.byAddr":    "counts connections of one address, which policies read; the pots have the shares",
	"relay.readers":   "connections by the keys that their clients have proven; pots have rows for connections, and Limits.AuthedKeys bounds the keys of one",
	"sets.authors":    "members of the operator's lists",
	"gitrepo.narrow":  "slots that git uses now, by network: rows of the classes",
	"gitrepo.wide":    "the same by neighbourhood",
	"ingest.authors":  "events in purgatory: host/purgatory has their rules",
	"ingest.networks": "the same by network",
	"ingest.accounts": "time that decisions took, by network: the row of slow decisions",
	"retry.authors":   "refused events by author: the row of refused events",
	"retry.accepted":  "authors among these, one of whose events was accepted",
	"repos.authors":   "authors that one job is about",
	"store.author":    "values of one filter",
	"gitfetch.open":   "connections that the server itself makes to an address",
}

// TestBoundsInOnePlace fails for a semaphore, and for a map by address, network or public key that
// lasts, outside package bound: a limit that clients share has a share for each network there.
func TestBoundsInOnePlace(t *testing.T) {
	seen := map[string]bool{}
	check := func(pos token.Position, pkg, name, what string) {
		key := pkg + "." + name
		seen[key] = true
		if ownBounds[key] == "" {
			t.Errorf("%s: %s is %s: make it in package bound, or state the reason in ownBounds as %q", pos, name, what, key)
		}
	}
	byClient := []string{"netip.Addr", "netip.Prefix", "netip.AddrPort", "host.PubKey", "grasp.PubKey", "PubKey"}
	byStruct := map[string]bool{} // structs that say who a client is, as package.name
	eachSource(t, func(_ string, _ *token.FileSet, file *ast.File) {
		structs(file, func(name string, s *ast.StructType) {
			for _, f := range s.Fields.List {
				if slices.Contains(byClient, text(f.Type)) {
					byStruct[file.Name.Name+"."+name] = true
				}
			}
		})
	})
	eachSource(t, func(pkg string, fset *token.FileSet, file *ast.File) {
		// Package users is the set of known people that the bounds ask. Its constants bound it.
		if pkg == "bound" || file.Name.Name == "users" {
			return
		}
		structs(file, func(_ string, s *ast.StructType) {
			for _, f := range s.Fields.List {
				m, ok := f.Type.(*ast.MapType)
				if !ok || !slices.Contains(byClient, text(m.Key)) && !byStruct[file.Name.Name+"."+text(m.Key)] {
					continue
				}
				for _, id := range f.Names {
					check(fset.Position(id.Pos()), file.Name.Name, id.Name, "a map by "+text(m.Key))
				}
			}
		})
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if size := semaphore(n.Value); size != "" {
					check(fset.Position(n.Pos()), file.Name.Name, text(n.Key), "a semaphore of "+size)
				}
			case *ast.AssignStmt:
				for i, value := range n.Rhs {
					if size := semaphore(value); size != "" && i < len(n.Lhs) {
						name := text(n.Lhs[i])
						check(fset.Position(n.Pos()), file.Name.Name, name[strings.LastIndexByte(name, '.')+1:], "a semaphore of "+size)
					}
				}
			case *ast.ValueSpec:
				for i, value := range n.Values {
					if size := semaphore(value); size != "" && i < len(n.Names) {
						check(fset.Position(n.Pos()), file.Name.Name, n.Names[i].Name, "a semaphore of "+size)
					}
				}
			}
			return true
		})
	})
	for key := range ownBounds {
		if !seen[key] {
			t.Errorf("ownBounds names %s, which there is not", key)
		}
	}
	if len(ownBounds) > 20 {
		t.Errorf("%d limits are outside package bound: each needs a better reason than the one before", len(ownBounds))
	}
}

// semaphore returns the size of make(chan struct{}, size), "" for another expression and for
// sizes up to 1.
func semaphore(e ast.Expr) string {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 || text(call.Fun) != "make" {
		return ""
	}
	c, ok := call.Args[0].(*ast.ChanType)
	if !ok {
		return ""
	}
	if s, ok := c.Value.(*ast.StructType); !ok || s.Fields.NumFields() > 0 {
		return ""
	}
	if size := text(call.Args[1]); size != "0" && size != "1" {
		return size
	}
	return ""
}

// text returns a name or selector as it is written; "?" for other expressions.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.BasicLit:
		return e.Value
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	}
	return "?"
}

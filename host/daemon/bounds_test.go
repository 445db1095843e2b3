//go:build !race

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host/bound"
	"talon/host/config"
	"talon/host/management"
	"talon/host/purgatory"
	"talon/host/store/semantics"
)

// TestBounds holds docs/reference-bounds.md against the limits that clients share, as a server
// with default options and 1 GiB of memory on two processors makes them.
func TestBounds(t *testing.T) {
	p := assembledParts(t, func(cfg *config.Config) {
		cfg.Memory, cfg.GitFetches, cfg.GitPushes = 1<<30, 4, 4 // others depend on the machine
	})
	rows := slices.Concat(p.relay.Bounds(), p.core.Pipeline.Bounds(), p.ingest.Bounds(), p.pages.Bounds(), p.git.Bounds(), p.hunter.part().Bounds(), p.sync.part().Bounds(), p.reconciler.Bounds())
	conns := p.conns.Bounds()
	conns[0].Total, conns[0].Network, conns[0].Known = 20_000, bound.Share(20_000), bound.KnownPart(20_000) // fewer if the process may open few files
	rows = append(conns, rows...)
	var held semantics.HeldLimits
	held.SetDefaults()
	rows = append(append(rows, purgatory.Bounds(&held)...), management.Bounds()...)
	rows = append(rows, newSignIn(proof{}, nil, nil).Bounds()...)
	var b strings.Builder
	b.WriteString(boundsHead)
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		text := fmt.Sprint(n)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", r.Name, r.Unit, number(r.Total), number(r.Known), number(r.Network), number(r.Key), r.Yields)
	}
	file := filepath.Join("..", "..", "docs", "reference-bounds.md")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != b.String() {
		t.Errorf("%s is not what the server's limits are: go test ./host/daemon -run TestBounds -update", file)
	}
}

const boundsHead = `# Limits that clients share

A limit that strangers can fill blocks everybody else. So each limit that clients share has a part for each network,
and a rule that says who gives way.

- A network counts twice: as an IPv4 address or an IPv6 /64, and as its /24 or /48.
- Loopback and connections of a trusted proxy count towards the total only. At the total of TCP
  connections they give way as one network does. A client behind a proxy on this machine that you do not trust (option
  ` + "`trust-proxy`" + `) counts as one address with all others behind it.
- Known people have a part that strangers cannot use. In it, each key and each network gets an eighth. They are the
  operator, the keys of option ` + "`known`" + `, and the owners and maintainers of repositories that were served for seven days.
  A client proves its key by AUTH. Otherwise its network counts: that of a known person's client in the last seven days.
- Nobody waits for a place that others hold: at the total, the one named in the last column gives way at once.

The table shows a server with default options, 1 GiB of memory and two processors. Options such as ` + "`--max-connections`" + `
change the totals, and the parts follow. Limits of one connection or one author alone are in ` + "`talon serve --help`" + `.
A strategy has limits of its own, such as the authors whose deletions it asks for: [strategies](strategies.md).

| limit | unit | total | for known people | of one network | of one owner or author | who gives way |
|---|---|---|---|---|---|---|
`

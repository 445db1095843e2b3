package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/relaymodel"
	"talon/host/relaymodel/server"
	"talon/internal/testkit"
)

// All events of a relay that is read page by page come, also where one second has more than
// a page. Where the relay gives no more of it, that is said.
func TestSyncReadsFullSeconds(t *testing.T) {
	const others = 300
	for _, tt := range []struct {
		profile          string
		limit            int // of the relay; 0: that of the profile
		dense, read, cut int
	}{
		{"khatru", 0, 1, others + 1, 0},
		{"khatru", 0, 600, others + 600, 0},
		{"khatru", 0, 900, others + 900, 0},
		{"khatru", 0, 1200, others + 1000, 1}, // of 2,000 it gives 500
		{"ngit-relay", 0, 900, others + 900, 0},
		{"nostream", 0, 900, others + 900, 0},
		{"strfry", 0, 400, others + 400, 0},
		{"strfry", 0, 900, others + 500, 1}, // of 1,000 as well
		{"strfry", 100, 90, others + 90, 0},
		{"strfry", 100, 300, others + 100, 1},
	} {
		t.Run(fmt.Sprintf("%s %d/%d", tt.profile, tt.limit, tt.dense), func(t *testing.T) {
			p, err := relaymodel.Builtin(tt.profile)
			if err != nil {
				t.Fatal(err)
			}
			p.Limits.Limit = cmp.Or(tt.limit, p.Limits.Limit)
			s := server.New(p, 1)
			defer s.Close()
			h := httptest.NewServer(s)
			defer h.Close()
			signer := testkit.NewSigner(1)
			const second = 1_700_000_000
			for i := range tt.dense {
				s.Add(signer.Event(1, second, strconv.Itoa(i)))
			}
			for i := range others {
				at := second - others/2 + i
				if at >= second {
					at++
				}
				s.Add(signer.Event(1, int64(at), "other"))
			}
			r := &relaySide{&target{
				address: "ws" + strings.TrimPrefix(h.URL, "http"), timeout: time.Hour,
				opts: relayclient.Options{MessageBytes: 1 << 20},
			}}
			defer func() { _ = r.close() }()
			var out strings.Builder
			how := syncing{filter: host.Filter{Limit: -1}, out: &out, progress: newProgress(io.Discard)}
			all, err := how.items(t.Context(), r, r.name())
			if err != nil || len(all) != tt.read {
				t.Errorf("read %d events, want %d: %v", len(all), tt.read, err)
			}
			said := ""
			if tt.cut > 0 {
				said = fmt.Sprintf("%s may have more events than it gives: seconds with too many for one answer: %d\n", r.name(), tt.cut)
			}
			if out.String() != said {
				t.Errorf("it says %q, want %q", &out, said)
			}
		})
	}
}

package main

import (
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
		dense, read, cut int
	}{
		{"khatru", 1, others + 1, 0},
		{"khatru", 600, others + 600, 0},
		{"khatru", 900, others + 900, 0},
		{"khatru", 1200, others + 1000, 1}, // of 2,000 it gives 500
		{"ngit-relay", 900, others + 900, 0},
		{"nostream", 900, others + 900, 0},
		{"strfry", 400, others + 400, 0},
		{"strfry", 900, others + 500, 1}, // of 1,000 as well
	} {
		t.Run(tt.profile+"/"+strconv.Itoa(tt.dense), func(t *testing.T) {
			p, err := relaymodel.Builtin(tt.profile)
			if err != nil {
				t.Fatal(err)
			}
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
			r := &relaySide{target{
				address: "ws" + strings.TrimPrefix(h.URL, "http"), timeout: time.Hour,
				opts: relayclient.Options{MessageBytes: 1 << 20},
			}}
			defer func() { _ = r.close() }()
			all, cut, err := r.items(t.Context(), host.Filter{Limit: -1}, func(int) {})
			if err != nil || len(all) != tt.read || cut != tt.cut {
				t.Errorf("read %d events, %d seconds are cut, want %d and %d: %v", len(all), cut, tt.read, tt.cut, err)
			}
		})
	}
}

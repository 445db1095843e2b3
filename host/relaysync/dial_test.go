package relaysync

import (
	"errors"
	"fmt"
	"testing"

	"talon/host/netguard"
	"talon/host/relayclient"
	"talon/host/relaysync/loop"
	"talon/sdk/abi"
)

// A relay that is being deployed may say anything for a while: that is no broken protocol.
func TestClassify(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		wasUp   bool
		class   uint32
		outcome loop.Outcome
	}{
		"404":             {&relayclient.StatusError{Status: 404}, false, abi.ClassUnreachable, loop.OutcomeServer},
		"410":             {&relayclient.StatusError{Status: 410}, false, abi.ClassUnreachable, loop.OutcomeServer},
		"502":             {&relayclient.StatusError{Status: 502}, false, abi.ClassUnreachable, loop.OutcomeServer},
		"403":             {&relayclient.StatusError{Status: 403}, false, abi.ClassRestricted, loop.OutcomeRefused},
		"429":             {&relayclient.StatusError{Status: 429}, false, abi.ClassRateLimited, loop.OutcomeRateLimited},
		"a web page":      {&relayclient.StatusError{Status: 200}, false, abi.ClassUnreachable, loop.OutcomeProtocol},
		"a bad handshake": {fmt.Errorf("x: %w", relayclient.ErrHandshake), false, abi.ClassUnreachable, loop.OutcomeProtocol},
		"violations":      {errViolations, true, abi.ClassError, loop.OutcomeProtocol},
		"silence":         {errSilent, true, abi.ClassLost, loop.OutcomeDisconnected},
		"forbidden":       {fmt.Errorf("x: %w", netguard.ErrForbidden), false, abi.ClassForbidden, loop.OutcomeRefused},
		"something":       {errors.New("x"), false, abi.ClassUnreachable, loop.OutcomeUnreachable},
	} {
		got := classify(tt.err, tt.wasUp)
		if got.Class != tt.class || got.Result.Outcome != tt.outcome || got.Restart {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := classify(errRestart, true); !got.Restart || got.Class != abi.ClassLost {
		t.Errorf("a restart: %+v", got)
	}
}

// How it stands with relays and repositories can be asked for at any time.
func TestStatus(t *testing.T) {
	r := newRemote(t, nil)
	r.add(notes(t, 20)...)
	w := start(t, onConnect(r.url, live(r.url, "l", kinds(1)), fetch(r.url, "h", abi.MethodAuto, kinds(1))), nil)
	w.shelf.put(t, announce(t, alice, "demo", epoch, r.url))
	w.plan.wait(t, 1, "done h")
	w.plan.wait(t, 1, "eose l")
	w.plan.wait(t, 1, "local")
	relays, repositories, err := w.sync.Status(t.Context())
	if err != nil || len(relays) != 1 || len(repositories) != 1 {
		t.Fatalf("%+v, %+v, %v", relays, repositories, err)
	}
	st := relays[0]
	if st.URL != r.url || st.Connection != "connected" || st.Health != "healthy" || st.Open != 1 || st.Pending != 0 || st.CompleteSince == 0 ||
		st.Limits.Negentropy != "yes" || !st.Wanted {
		t.Errorf("%+v", st)
	}
	until(t, "the count of bytes", func() bool {
		relays, _, _ := w.sync.Status(t.Context())
		return relays[0].Received > 1000
	})
	if repositories[0].Relays[0] != r.url || !repositories[0].Full {
		t.Errorf("%+v", repositories)
	}
}

package relaysync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

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
		got := Classify(tt.err, tt.wasUp)
		if got.Class != tt.class || got.Result.Outcome != tt.outcome || got.Restart {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Classify(errRestart, true); !got.Restart || got.Class != abi.ClassLost {
		t.Errorf("a restart: %+v", got)
	}
}

// silent is a dialer whose relays never answer. It notes how long it may wait.
type silent struct{ inform, dial time.Duration }

func within(ctx context.Context) time.Duration {
	by, _ := ctx.Deadline()
	return time.Until(by).Round(time.Second)
}

func (d *silent) Inform(ctx context.Context, _ string) (*Information, error) {
	d.inform = within(ctx)
	return nil, errors.New("no answer")
}

func (d *silent) Dial(ctx context.Context, _ string) (Conn, error) {
	d.dial = within(ctx)
	return nil, errors.New("no answer")
}

// An attempt lasts as long as the loop says. Half of it is for the relay's document.
func TestDialWithin(t *testing.T) {
	for limit, want := range map[int64]time.Duration{0: 200 * time.Second, 4000: 40 * time.Second} {
		d := new(silent)
		v := &Sync{dialer: d}
		v.cfg.Limits.ConnectTime = 200 * time.Second
		v.cfg.Log = slog.New(slog.DiscardHandler)
		l := newLine(t.Context(), v, loop.Dial{Relay: "wss://relay.example.com", Inform: true, Within: 10 * limit})
		if _, _, err := l.dial(); err == nil || d.dial != want || d.inform != want/2 {
			t.Errorf("%v, %v for the document, %v in all; want %v", err, d.inform, d.dial, want)
		}
	}
}

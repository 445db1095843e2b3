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
		got := Classify(tt.err, tt.wasUp)
		if got.Class != tt.class || got.Result.Outcome != tt.outcome || got.Restart {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Classify(errRestart, true); !got.Restart || got.Class != abi.ClassLost {
		t.Errorf("a restart: %+v", got)
	}
}

package plugin

import (
	"errors"

	"talon/host/plugin/guest"
)

// Failures of a plugin that was not asked.
var (
	errRefused     = errors.New("it has failed for whom it is asked now, who is refused for a while")
	errBreakerOpen = errors.New("it has failed for many and rests")
	errMissing     = errors.New("it is required, and does not run")
)

// failure is what a plugin did wrong, nil if the error is the host's.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case err == errRefused, err == errBreakerOpen, err == errMissing:
		return err
	}
	if f := guest.AsFailure(err); f != nil {
		return f
	}
	if f := asProgramFailure(err); f != nil {
		return f
	}
	return nil
}

// kindOf returns what a failure says about who caused it. Reads that take too long say nothing:
// others may use the machine. The schedule of decisions charges those who do.
func kindOf(f error) failureKind {
	switch f := f.(type) {
	case *guest.Failure:
		switch f.Cause {
		case guest.CauseTime:
			return ofNobody
		case guest.CauseStart:
			return ofPlugin
		}
	case *programFailure:
		switch f.cause {
		case programCauseStart:
			return ofPlugin
		case programCauseBusy:
			return ofNobody
		}
	}
	return ofSource
}

// timedOut reports whether the reads of a module took longer than its budget of time.
func timedOut(err error) bool {
	f := guest.AsFailure(err)
	return f != nil && f.Cause == guest.CauseTime
}

package gitfetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"talon/host/gitfetch/queue"
	"talon/host/gitrepo"
	"talon/host/throttle"
	"talon/sdk/abi"
)

// judge says how a fetch ended. Git's own error counts only where the server did all
// that was asked of it by HTTP. A fault of this machine has no outcome: no server is
// to be blamed for it. Nor is one for objects that are refused for what is in them: it
// gave what was asked for.
func judge(wanted, found int, cause, git error) queue.Result {
	r := queue.Result{Found: found}
	var refused *gitrepo.RefusedObjects
	var work *gitrepo.Refused
	switch {
	case found == wanted:
		r.Outcome = abi.OutcomeOK
		return r
	case git == nil && (cause == nil || errors.Is(cause, errClosed)):
		// Git may have had enough before the server had.
		r.Outcome = abi.OutcomeNotFound
	case (cause == nil || errors.Is(cause, errClosed)) && errors.As(git, &refused):
		r.Outcome = abi.OutcomeNotFound
		r.Reason = reason(fmt.Errorf("what it has is refused: %w", refused))
	case (cause == nil || errors.Is(cause, errClosed)) && errors.As(git, &work):
		r.Outcome = abi.OutcomeTooLarge
		r.Reason = reason(git)
	case cause == nil || errors.Is(cause, errClosed):
		r.Outcome = abi.OutcomeProtocol
		if localFailure(git) {
			r.Outcome = abi.OutcomeUnspecified
		}
		r.Reason = reason(git)
	default:
		r.Outcome = outcomeOf(cause)
		r.Reason = reason(cause)
		var status *statusError
		if errors.As(cause, &status) {
			r.Status, r.RetryAfter = status.status, status.retryAfter
		}
		var moved *movedError
		if errors.As(cause, &moved) {
			r.Moved = moved.to
		}
	}
	if found > 0 && r.Outcome != abi.OutcomeUnspecified {
		r.Outcome = abi.OutcomePartial
	}
	return r
}

// outcomeOf says what kind of failure an error is.
func outcomeOf(err error) uint32 {
	var (
		status   *statusError
		protocol *protocolError
		refused  *refusedError
		moved    *movedError
		pack     *gitrepo.Refused
	)
	of := throttle.Outcome(err)
	switch {
	case errors.As(err, &status):
		return OutcomeOfStatus(status.status)
	case errors.As(err, &moved):
		return abi.OutcomeNotFound
	case errors.As(err, &refused), errors.Is(err, errPrivate):
		return abi.OutcomeRefused
	case errors.As(err, &protocol), errors.Is(err, errTalk):
		return abi.OutcomeProtocol
	case errors.Is(err, errBytes), errors.Is(err, errObjects), errors.Is(err, errRefs), errors.As(err, &pack):
		return abi.OutcomeTooLarge
	case errors.Is(err, errTime), errors.Is(err, errStalled), errors.Is(err, errQuiet), errors.Is(err, errOthers):
		return abi.OutcomeTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, errCrowded):
		return abi.OutcomeUnspecified // we are shutting down, or others use the same address
	case of != abi.OutcomeUnspecified:
		return of
	case strings.Contains(err.Error(), "tls: "):
		return abi.OutcomeTLS
	case errors.As(err, new(*net.OpError)), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), strings.Contains(err.Error(), "server closed idle connection"):
		return abi.OutcomeUnreachable
	}
	return abi.OutcomeProtocol // what net/http makes of an answer that is not HTTP
}

// OutcomeOfStatus returns the outcome that an HTTP status stands for.
func OutcomeOfStatus(status int) uint32 {
	switch {
	case status == http.StatusTooManyRequests:
		return abi.OutcomeRateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired,
		status == http.StatusUnavailableForLegalReasons, status == http.StatusPaymentRequired:
		return abi.OutcomeRefused
	case status == http.StatusNotFound, status == http.StatusGone:
		return abi.OutcomeNotFound
	case status >= 500 && status < 600:
		return abi.OutcomeServer
	}
	return abi.OutcomeProtocol
}

// localFailure reports whether an error of git is about this machine, not about the server.
func localFailure(err error) bool {
	var failure *gitrepo.Failure
	if !errors.As(err, &failure) {
		return true
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, context.Canceled) {
		return true
	}
	for _, text := range []string{"No space left on device", "Disk quota exceeded", "Read-only file system", "Input/output error", "Too many open files"} {
		// What a server writes stands behind "remote: ".
		if at := strings.Index(failure.Stderr, text); at >= 0 && !strings.Contains(failure.Stderr[:at], "remote:") {
			return true
		}
	}
	return false
}

const maxReason = 256

// reason returns an error as one short line, without the secret of a session.
func reason(err error) string {
	if err == nil {
		return ""
	}
	var failure *gitrepo.Failure
	text := err.Error()
	if errors.As(err, &failure) && failure.Stderr != "" {
		text = "git: " + failure.Stderr
	}
	for {
		at := strings.Index(text, "http://127.0.0.1:")
		if at < 0 {
			break
		}
		end := at
		for end < len(text) && text[end] > ' ' && text[end] != '\'' && text[end] != '"' {
			end++
		}
		text = text[:at] + "the server" + text[end:]
	}
	text = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text), "?")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "")
	}
	return text
}

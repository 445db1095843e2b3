package relay

import (
	"errors"
	"fmt"

	"github.com/gobwas/ws"
)

// closeCause says why a connection ended; it is a label.
type closeCause uint8

func (c closeCause) String() string {
	return [cuts]string{"peer", "protocol", "size", "garbage", "slow", "limited", "idle", "crowded", "yielded", "banned", "policy", "shutdown", "panic"}[c]
}

// statusTryAgain is of the registry that RFC 6455 began: the server is overloaded.
const statusTryAgain ws.StatusCode = 1013

// closeReason is why and how a connection is closed from our side.
type closeReason struct {
	cause  closeCause
	code   ws.StatusCode // of the close frame; 0 sends none
	reason string

	// discard drops what is queued: the client is not reading it.
	discard bool
}

func (e *closeReason) Error() string { return fmt.Sprintf("%s: %s", e.cause, e.reason) }

func tooBig(limit int) error {
	return &closeReason{
		cause: cutSize, code: ws.StatusMessageTooBig,
		reason: fmt.Sprintf("a message may have at most %d bytes", limit),
	}
}

func protocolError(err error) error {
	return &closeReason{cause: cutProtocol, code: ws.StatusProtocolError, reason: err.Error()}
}

// peerClosed answers the client's close frame with its own code (RFC 6455, 5.5.1).
func peerClosed(code ws.StatusCode) error {
	if code == 0 {
		code = ws.StatusNormalClosure
	}
	return &closeReason{cause: cutPeer, code: code}
}

const (
	cutPeer     closeCause = iota // the client left
	cutProtocol                   // not the websocket protocol
	cutSize                       // a message over the limit
	cutGarbage                    // nothing but messages that are not understood
	cutSlow                       // does not read what it asked for
	cutPaced                      // may not read as much as it asked for
	cutIdle                       // does not answer pings, or does not finish a message
	cutCrowded                    // long messages of all connections together are too large
	cutYielded                    // was idle longest, and others need its place
	cutBanned                     // by the operator
	cutPolicy                     // a policy ended it
	cutShutdown
	cutPanic
	cuts
)

var (
	errBinary   = &closeReason{cause: cutProtocol, code: ws.StatusUnsupportedData, reason: "binary messages are not supported"}
	errUTF8     = &closeReason{cause: cutProtocol, code: ws.StatusInvalidFramePayloadData, reason: "a text message must be valid UTF-8"}
	errInflate  = &closeReason{cause: cutProtocol, code: ws.StatusInvalidFramePayloadData, reason: "the compressed data is damaged"}
	errGarbage  = &closeReason{cause: cutGarbage, code: ws.StatusPolicyViolation, reason: "too many messages that are not understood"}
	errSlow     = &closeReason{cause: cutSlow, code: ws.StatusPolicyViolation, reason: "you do not read what you subscribed to fast enough", discard: true}
	errPaced    = &closeReason{cause: cutPaced, code: ws.StatusPolicyViolation, reason: "rate-limited: you subscribed to more than the relay sends to one client now", discard: true}
	errIdle     = &closeReason{cause: cutIdle, code: ws.StatusPolicyViolation, reason: "no answer to a ping", discard: true}
	errDawdling = &closeReason{cause: cutIdle, code: ws.StatusPolicyViolation, reason: "a message was not finished in time"}
	errCrowded  = &closeReason{cause: cutCrowded, code: statusTryAgain, reason: "too many long messages at once, try again later"}
	errYielded  = &closeReason{cause: cutYielded, code: statusTryAgain, reason: "others need the place of this connection, try again later", discard: true}
	errShutdown = &closeReason{cause: cutShutdown, code: ws.StatusGoingAway, reason: "the relay is shutting down"}
	errPanicked = &closeReason{cause: cutPanic, code: ws.StatusInternalServerError, reason: "internal error"}
)

// errEnded says that the connection is closing; [conn.closeWith] has the reason.
var errEnded = errors.New("connection is closing")

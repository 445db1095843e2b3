package githttp

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"talon/host"
	"talon/host/gitrepo"
)

// maxCapabilities bounds what a client says of itself in its first command.
const maxCapabilities = 4 << 10

// commands are what a push begins with.
type commands struct {
	raw     []byte // as the client sent it, up to the flush packet and with it
	updates []host.RefUpdate

	report   bool // the client reads a report of each ref
	sideband int  // the longest pkt-line of its side band; 0 for none
	quiet    bool // it does not want to know how far the work is
}

// bringsPack reports whether a pack follows: one comes with all but deletions.
func (c *commands) bringsPack() bool {
	return slices.ContainsFunc(c.updates, func(u host.RefUpdate) bool { return !gitrepo.IsZero(u.New) })
}

// A refused request is not git's protocol, or asks what no repository allows.
type protocolError string

func (e protocolError) Error() string { return string(e) }

// readCommands reads the commands of a push: pkt-lines up to a flush packet. What
// is wrong with them is a protocolError; any other error is of the reader.
func readCommands(r io.Reader, l *Limits) (*commands, error) {
	c := new(commands)
	seen := map[string]bool{}
	for lines := 0; ; lines++ {
		if lines > l.Commands {
			return c, protocolError(fmt.Sprintf("a push may have %d commands", l.Commands))
		}
		raw, payload, err := readPkt(r, c.raw)
		c.raw = raw
		switch {
		case err == errPkt:
			return c, protocolError("this is no push: " + err.Error())
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return c, protocolError("the commands of the push are cut off")
		case err != nil:
			return c, err
		case len(raw) > l.CommandBytes:
			return c, protocolError(fmt.Sprintf("the commands of a push may have %d bytes", l.CommandBytes))
		case payload == nil:
			if len(c.updates) == 0 {
				return c, protocolError("the push changes no ref")
			}
			return c, nil
		}
		if err := c.add(payload, seen); err != nil {
			return c, err
		}
	}
}

func (c *commands) add(payload []byte, seen map[string]bool) error {
	line := payload
	if len(c.updates) == 0 {
		if i := bytes.IndexByte(line, 0); i >= 0 {
			if err := c.capabilities(string(line[i+1:])); err != nil {
				return err
			}
			line = line[:i]
		}
	}
	text := strings.TrimSuffix(string(line), "\n")
	if id, ok := strings.CutPrefix(text, "shallow "); ok && len(c.updates) == 0 && gitrepo.IsID(id) {
		return nil
	}
	part := strings.SplitN(text, " ", 3)
	if len(part) != 3 || !gitrepo.IsID(part[0]) || !gitrepo.IsID(part[1]) || len(part[0]) != len(part[1]) {
		return protocolError("a command of the push is not understood; signed pushes are not taken")
	}
	u := host.RefUpdate{Old: part[0], New: part[1], Ref: part[2]}
	switch {
	case !gitrepo.IsRef(u.Ref):
		return protocolError(fmt.Sprintf("%.200q is not the full name of a ref", u.Ref))
	case seen[u.Ref]:
		return protocolError(fmt.Sprintf("the push names %.200q twice", u.Ref))
	case gitrepo.IsZero(u.Old) && gitrepo.IsZero(u.New):
		return protocolError(fmt.Sprintf("the push deletes %.200q, which it says is not there", u.Ref))
	}
	seen[u.Ref] = true
	c.updates = append(c.updates, u)
	return nil
}

func (c *commands) capabilities(list string) error {
	if len(list) > maxCapabilities {
		return protocolError("the capabilities of the client are too long")
	}
	for _, word := range strings.Fields(list) {
		switch word {
		case "report-status", "report-status-v2":
			c.report = true
		case "side-band-64k":
			c.sideband = maxPkt
		case "side-band":
			c.sideband = max(c.sideband, 1000)
		case "quiet":
			c.quiet = true
		case "push-options":
			return protocolError("push options are not taken here")
		}
	}
	return nil
}

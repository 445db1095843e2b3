// Package gitremote is a remote helper of git (gitremote-helpers) that pushes over smart
// HTTP: git speaks to it as to a server at the other end of a pipe, and it passes the push
// on as one request.
//
// git's own helper for HTTP hands every ref of a push to a second process. That process
// compares each of them with every ref of the local repository. With 20,000 branches this
// takes minutes, and a dry run takes as long again. Here git itself makes the push, so that
// the time grows with their number.
//
// It pushes and does nothing else, and it knows nothing of git's settings for HTTP.
package gitremote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

const (
	// Name is the name of the program that git looks for, and Protocol the value of a
	// remote's setting vcs that selects it.
	Name     = "git-remote-" + Protocol
	Protocol = "talon"

	service = "git-receive-pack"

	// maxLine bounds a line of git's, maxPkt a pkt-line, maxCommands those of a push, and
	// maxWhy what is shown of a refusal.
	maxLine     = 4 << 10
	maxPkt      = 65520
	maxCommands = 64 << 20
	maxWhy      = 500
)

// Serve carries out git's commands for the repository at a URL until git closes the
// input.
func Serve(ctx context.Context, address string, in io.Reader, out io.Writer) error {
	if !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
		return errors.New("the remote has no URL that begins with http:// or https://")
	}
	r := bufio.NewReaderSize(in, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what git asks: %w", err)
		}
		switch line := strings.TrimSuffix(string(line), "\n"); line {
		case "":
			return nil
		case "capabilities":
			_, err = io.WriteString(out, "connect\n\n")
		case "connect " + service:
			return push(ctx, strings.TrimSuffix(address, "/"), r, out)
		default:
			if !strings.HasPrefix(line, "connect ") {
				return fmt.Errorf("git asks for %q, which is not offered", line)
			}
			_, err = io.WriteString(out, "fallback\n")
		}
		if err != nil {
			return fmt.Errorf("answer git: %w", err)
		}
	}
}

// push shows git the refs of the repository, and passes its push on if it makes one.
func push(ctx context.Context, address string, in *bufio.Reader, out io.Writer) error {
	list, address, err := refs(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = list.Close() }()
	if _, err := io.WriteString(out, "\n"); err != nil {
		return fmt.Errorf("answer git: %w", err)
	}
	if _, err := io.Copy(out, list); err != nil {
		return fmt.Errorf("pass on the refs of the repository: %w", err)
	}
	commands, pack, err := readCommands(in)
	if err != nil {
		return fmt.Errorf("read the push: %w", err)
	}
	if len(commands) == 0 {
		return nil // a dry run, or everything up-to-date
	}
	return send(ctx, address, commands, pack, in, out)
}

// refs asks for the refs of a repository. It returns them as a server at the end of a
// pipe would list them, and the address that a push goes to.
func refs(ctx context.Context, address string) (io.ReadCloser, string, error) {
	const path = "/info/refs"
	answer, err := do(ctx, http.MethodGet, address+path+"?service="+service, nil, "application/x-"+service+"-advertisement")
	if err != nil {
		return nil, "", err
	}
	// After a redirect, the push goes to the new address.
	if u := *answer.Request.URL; strings.HasSuffix(u.Path, path) {
		u.RawQuery = ""
		address = strings.TrimSuffix(u.String(), path)
	}
	r := bufio.NewReader(answer.Body)
	title, err := readPkt(r)
	if err == nil && strings.TrimSuffix(string(title), "\n") != "# service="+service {
		err = errors.New("the server does not speak the protocol of git over HTTP")
	}
	if err == nil {
		title, err = readPkt(r)
	}
	if err == nil && title != nil {
		err = errors.New("the server does not speak the protocol of git over HTTP")
	}
	if err != nil {
		_ = answer.Body.Close()
		return nil, "", fmt.Errorf("read the refs of the repository: %w", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{r, answer.Body}, address, nil
}

// readCommands reads the commands of a push, and its options if it has such, as they are.
// pack reports whether a pack follows: one comes with all but deletions.
func readCommands(in *bufio.Reader) (commands []byte, pack bool, err error) {
	options := false
	for first := true; ; first = false {
		payload, err := readPkt(in)
		if err == io.EOF && first {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		if payload == nil && first {
			return nil, false, nil
		}
		if commands, err = appendPkt(commands, payload); err != nil {
			return nil, false, err
		}
		if payload == nil {
			break
		}
		command, capabilities, has := strings.Cut(string(payload), "\x00")
		for _, word := range strings.Fields(capabilities) {
			options = options || has && word == "push-options"
		}
		// OLD NEW REF; "shallow OBJECT" and certificates have no second object.
		if part := strings.SplitN(command, " ", 3); len(part) == 3 && strings.Trim(part[1], "0") != "" {
			pack = true
		}
	}
	for options {
		payload, err := readPkt(in)
		if err != nil {
			return nil, false, err
		}
		if commands, err = appendPkt(commands, payload); err != nil {
			return nil, false, err
		}
		options = payload != nil
	}
	return commands, pack, nil
}

// send makes the request of a push, and passes the answer on.
func send(ctx context.Context, address string, commands []byte, pack bool, in *bufio.Reader, out io.Writer) error {
	var body io.Reader = bytes.NewReader(commands)
	if pack {
		b := &streamed{from: io.MultiReader(body, in), closed: make(chan struct{})}
		body = b
		// git writes its pack to the end, also after a server has said no.
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			<-b.closed
			_, _ = io.Copy(io.Discard, b)
		}()
		defer func() { <-drained }()
	}
	answer, err := do(ctx, http.MethodPost, address+"/"+service, body, "application/x-"+service+"-result")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(out, answer.Body); err != nil {
		return fmt.Errorf("pass on the answer to the push: %w", err)
	}
	return nil
}

// streamed is the body of a request, which says when package http needs it no more. That
// may close a body while it reads, and more than once.
type streamed struct {
	mu     sync.Mutex // guards from
	from   io.Reader
	closed chan struct{}
	once   sync.Once
}

func (s *streamed) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from.Read(p)
}

func (s *streamed) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// do makes a request and wants an answer of a media type.
func do(ctx context.Context, method, address string, body io.Reader, media string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "git/talon")
	request.Header.Set("Accept", media)
	if body != nil {
		request.Header.Set("Content-Type", "application/x-"+service+"-request")
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK && answer.Header.Get("Content-Type") == media {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusOK {
		return nil, errors.New("the server does not speak the protocol of git over HTTP")
	}
	why, _ := io.ReadAll(io.LimitReader(answer.Body, maxWhy))
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(string(why), ""))
	return nil, fmt.Errorf("the server answers %s: %s", answer.Status, strings.TrimSpace(text))
}

var errPkt = errors.New("a length that no pkt-line has")

// readPkt reads a pkt-line. The payload is nil for a flush packet.
func readPkt(r *bufio.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(string(length[:]), 16, 16)
	if err != nil || n > maxPkt || n > 0 && n < 4 {
		return nil, errPkt
	}
	if n == 0 {
		return nil, nil
	}
	payload := make([]byte, n-4)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return payload, nil
}

// appendPkt appends a pkt-line; a nil payload is a flush packet.
func appendPkt(buf, payload []byte) ([]byte, error) {
	if len(buf) > maxCommands {
		return nil, errors.New("it has too many commands")
	}
	if payload == nil {
		return append(buf, "0000"...), nil
	}
	return append(fmt.Appendf(buf, "%04x", len(payload)+4), payload...), nil
}

package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"syscall"

	"talon/host"
	"talon/host/plugin"
	"talon/host/plugin/sidecar"
)

// ErrNoServer says that no server listens on the socket.
var ErrNoServer = errors.New("no server listens")

// maxAnswer bounds what a client reads.
const maxAnswer = 64 << 20

// Client asks a running server. Its errors are for the operator.
type Client struct {
	path string
	http http.Client
}

// Dial returns a client of the server that listens at path. It connects when it
// is asked something.
func Dial(path string) *Client {
	c := &Client{path: path}
	c.http = http.Client{
		Timeout: writeTime,
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.connect(ctx) },
			DisableKeepAlives: true,
		},
	}
	return c
}

// connect reaches the socket through its folder, as [Listen] does.
func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	folder, err := openFolder(filepath.Dir(c.path))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return new(net.Dialer).DialContext(ctx, "unix", inside(folder, filepath.Base(c.path)))
}

// List returns all plugins.
func (c *Client) List(ctx context.Context) (list []plugin.Status, err error) {
	err = c.get(ctx, pathPlugins, nil, &list)
	return list, err
}

// Disagreements returns events about which a plugin in shadow mode and the chain
// disagreed, at most limit of them, the newest first.
func (c *Client) Disagreements(ctx context.Context, name string, limit int) (list []plugin.Disagreement, err error) {
	query := url.Values{"plugin": {name}, "limit": {strconv.Itoa(limit)}}
	err = c.get(ctx, pathDisagreements, query, &list)
	return list, err
}

// Why returns the last decision about an event.
func (c *Client) Why(ctx context.Context, event host.ID) (why plugin.Why, err error) {
	err = c.get(ctx, pathWhy, url.Values{"event": {event.String()}}, &why)
	return why, err
}

// Swap replaces the module that runs under a name. signature is nil if none goes with it.
func (c *Client) Swap(ctx context.Context, name string, wasm, signature []byte) (status plugin.Status, err error) {
	if len(wasm) > MaxModule {
		return status, fmt.Errorf("the module has %d bytes, want at most %d", len(wasm), MaxModule)
	}
	if len(signature) > MaxSignature {
		return status, fmt.Errorf("the signature has %d bytes, want at most %d: copy module and signature into the folder of plugins", len(signature), MaxSignature)
	}
	header := http.Header{}
	if signature != nil {
		header.Set(headerSignature, base64.StdEncoding.EncodeToString(signature))
	}
	err = c.askWith(ctx, http.MethodPost, pathSwap, url.Values{"plugin": {name}}, header, wasm, &status)
	return status, err
}

// Rollback returns to an earlier generation; 1 is the one that ran before.
func (c *Client) Rollback(ctx context.Context, name string, steps int) (status plugin.Status, err error) {
	err = c.post(ctx, pathRollback, rollback{name, steps}, &status)
	return status, err
}

// SetMode changes the mode of a plugin.
func (c *Client) SetMode(ctx context.Context, name string, m sidecar.Mode) (status plugin.Status, err error) {
	err = c.post(ctx, pathMode, mode{name, m}, &status)
	return status, err
}

// Set changes keys of the side-car of a plugin.
func (c *Client) Set(ctx context.Context, name string, list []sidecar.Assignment) (status plugin.Status, err error) {
	err = c.post(ctx, pathSet, set{name, list}, &status)
	return status, err
}

func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	return c.askWith(ctx, http.MethodGet, path, query, http.Header{}, nil, into)
}

func (c *Client) post(ctx context.Context, path string, v, into any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.askWith(ctx, http.MethodPost, path, nil, http.Header{}, text, into)
}

func (c *Client) askWith(ctx context.Context, method, path string, query url.Values, header http.Header, body []byte, into any) error {
	resp, err := c.request(ctx, &c.http, method, path, query, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("read the answer of the server: %w", err)
	}
	if len(text) > maxAnswer {
		return fmt.Errorf("the answer of the server has more than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the answer of the server: %w", err)
	}
	return nil
}

// request returns the server's answer if that is 200; else what it says is wrong.
func (c *Client) request(
	ctx context.Context, by *http.Client, method, path string, query url.Values, header http.Header, body []byte,
) (*http.Response, error) {
	at := url.URL{Scheme: "http", Host: "talon", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := by.Do(req)
	if err != nil {
		return nil, c.explain(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var f failure
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON))
	if err != nil || json.Unmarshal(text, &f) != nil || f.Error == "" {
		return nil, fmt.Errorf("the server answered %s", resp.Status)
	}
	return nil, errors.New(f.Error)
}

// explain says what an error of the connection means.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w on the admin socket %s", ErrNoServer, c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the admin socket %s is for another user: run this as the user that the server runs as, or as root", c.path)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("ask the server on the admin socket %s: %w", c.path, err)
}

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/internal/testkit"
)

// idleTime is longer than three times the defaults of the proxies.
const idleTime = 190 * time.Second

// TestProxies runs nginx and HAProxy with the configuration of docs/how-to-host-repositories.md, and
// with their default timeouts. Git, pages and browsers work, and a websocket that is silent for minutes
// gets the next event.
func TestProxies(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("it waits for 190 s: make scale")
	}
	page, err := os.ReadFile("../../docs/how-to-host-repositories.md")
	if err != nil {
		t.Fatal(err)
	}
	plugins := pluginFolder(t, "grasp")
	// with replaces what differs on this machine; each must be there.
	with := func(t *testing.T, language string, pairs ...string) string {
		t.Helper()
		block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
		if block == nil {
			t.Fatalf("the page has no configuration of %s", language)
		}
		text := string(block[1])
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("the configuration of %s has no %q", language, pairs[i])
			}
			text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
		}
		return text
	}
	for name, configuration := range map[string]func(t *testing.T, dir, listen, talon string) (string, []string){
		"nginx": func(t *testing.T, dir, listen, talon string) (string, []string) {
			server := with(t, "nginx", "listen 443 ssl", "listen "+listen, "127.0.0.1:7334", talon,
				"\t\tproxy_read_timeout 1h;\n", "", "\t\tproxy_send_timeout 1h;\n", "")
			temporary := ""
			for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				temporary += fmt.Sprintf("%s_temp_path %s/%s;\n", what, dir, what)
			}
			return fmt.Sprintf("daemon off;\nuser root;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n", dir, temporary, server), []string{"-p", dir, "-c"}
		},
		"haproxy": func(t *testing.T, _, listen, talon string) (string, []string) {
			return with(t, "haproxy", "bind :443 ssl crt /etc/haproxy/git.example.com.pem", "bind "+listen, "127.0.0.1:7334", talon,
				"timeout client 1h", "timeout client 50s", "timeout server 1h", "timeout server 50s"), []string{"-db", "-f"}
		},
	} {
		s := start(t, graspData(t), "--plugins", plugins, "--domain", serviceDomain, "--trust-proxy", "127.0.0.1", "--sync", "false", "--hunt", "false")
		t.Run(name, func(t *testing.T) {
			program, err := exec.LookPath(name)
			if err != nil {
				program = "/usr/sbin/" + name
			}
			if _, err := os.Stat(program); err != nil {
				t.Skipf("%s is not installed (apt-get install %s)", name, name)
			}
			dir, listen := t.TempDir(), testkit.FreeAddress(t)
			text, args := configuration(t, dir, listen, strings.TrimPrefix(s.web(), "http://"))
			file := filepath.Join(dir, "configuration")
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			proxy := exec.Command(program, append(args, file)...)
			proxy.Stderr = os.Stderr
			if err := proxy.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = proxy.Process.Signal(os.Interrupt)
				_ = proxy.Wait()
			})
			until(t, "the proxy serves", func() bool {
				answer, err := http.Get("http://" + listen + "/healthz")
				if err == nil {
					_ = answer.Body.Close()
				}
				return err == nil && answer.StatusCode == http.StatusOK
			})
			behind(t, s, listen)
		})
	}
}

// behind uses a server through its proxy.
func behind(t *testing.T, s *process, listen string) {
	t.Parallel() // they wait at the same time
	s.url = "ws://" + listen
	st := newStory(t, s)
	owner, work := st.who("owner"), st.folder()
	announcement := st.held(st.announcement(owner, "a b%2Fü")) // the path must arrive as it was sent
	one := work.commit(strings.Repeat("large ", 1<<20))        // more than proxies hold back
	st.held(st.state(owner, "a b%2Fü", "HEAD", "ref: refs/heads/main", "refs/heads/main", one))
	work.push(st.repo(owner, "a b%2Fü"), "main")
	st.becomesServed(announcement)
	st.git(".", "clone", "-q", st.repo(owner, "a b%2Fü"), filepath.Join(t.TempDir(), "clone"))
	preflight, err := http.NewRequest(http.MethodOptions, st.repo(owner, "a b%2Fü")+"/info/refs", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(preflight)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent || answer.Header.Values("Access-Control-Allow-Origin")[0] != "*" {
		t.Errorf("OPTIONS is answered %s with %v", answer.Status, answer.Header)
	}

	idle, late := connect(t, s), connect(t, s)
	idle.send(t, `["REQ","live",{"kinds":[1621],"limit":0}]`)
	idle.untilEOSE(t, "live")
	got := make(chan string, 1)
	began := time.Now()
	go func() {
		text, err := idle.next("EVENT", "CLOSED")
		got <- fmt.Sprint(text, err)
	}()
	silent := make(chan error, 1)
	go func() {
		_, err := late.next("EVENT") // answers pings; it never asked for anything
		silent <- err
	}()
	select {
	case text := <-got:
		t.Fatalf("after %v the idle websocket got %s", time.Since(began), text)
	case err := <-silent:
		t.Fatalf("after %v the websocket without a subscription ended: %v", time.Since(began), err)
	case <-time.After(idleTime):
	}
	writer := newStory(t, s)
	issue := writer.stored(writer.event(owner, 1621, nostr.Tag{"a", repoAddress(owner, "a b%2Fü")}))
	if text := <-got; !strings.Contains(text, issue.ID) {
		t.Errorf("after %v the idle websocket got %s", time.Since(began), text)
	}
	select {
	case err := <-silent:
		t.Errorf("the websocket without a subscription ended: %v", err)
	default:
	}
}

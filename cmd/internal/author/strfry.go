package author

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/wire"
)

// Actions of strfry.
const (
	sAccept = "accept"
	sReject = "reject"
	sShadow = "shadowReject"
)

// sifted is what a plugin answers to strfry.
type sifted struct {
	ID     string `json:"id"`
	Action string `json:"action"`
	Msg    string `json:"msg"`
}

// reasonFailed is what clients hear when nothing could be decided.
const reasonFailed = "error: the policy failed; try again later"

// RunStrfry answers strfry's questions with the module's verdicts, until r ends. An event
// of which the module has no opinion is accepted, since strfry asks one plugin
// alone, or refused if pass is false. Where the module fails, the event is refused.
func (r *Runner) RunStrfry(ctx context.Context, in io.Reader, out io.Writer, pass bool, log *slog.Logger) error {
	w := bufio.NewWriter(out)
	return eachLine("stdin", in, func(where string, text []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		answer, err := r.answerStrfry(ctx, where, text, pass)
		if err != nil {
			log.Error("this is not answered", "err", err)
			return nil
		}
		line, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		_, _ = w.Write(append(line, '\n'))
		return w.Flush()
	})
}

// answerStrfry answers one line. An error says that strfry would not have written it.
func (r *Runner) answerStrfry(ctx context.Context, where string, text []byte, pass bool) (*sifted, error) {
	l, err := parseLine(where, text)
	if err != nil {
		return nil, err
	}
	e, err := wire.ParseEvent(l["event"])
	if err != nil {
		return nil, fmt.Errorf("%s: event: %w", where, err)
	}
	q, err := Clock{}.ParseQuestion(where, text)
	if err != nil {
		return nil, err
	}
	a := r.Ask(ctx, q)
	return a.sifted(e.ID.String(), pass), nil
}

func (a *Answer) sifted(id string, pass bool) *sifted {
	if a.Err != nil {
		return &sifted{id, sReject, reasonFailed}
	}
	switch a.Action {
	case host.Accept:
		return &sifted{id, sAccept, ""}
	case host.Pass:
		if pass {
			return &sifted{id, sAccept, ""}
		}
		return &sifted{id, sReject, "blocked: no rule accepts this event"}
	case host.ShadowReject:
		return &sifted{id, sShadow, ""}
	case host.Hold:
		// strfry has no purgatory.
		return &sifted{id, sReject, "error: this event would have to wait for its git data, which this relay does not take"}
	}
	return &sifted{id, sReject, a.Reason}
}

// CheckSift returns why a module cannot decide without a relay: it reads what only a
// relay has. facts says whether there is a file of stored events.
func (r *Runner) CheckSift(facts bool) error {
	for _, name := range r.module.Imports() {
		group, _, _ := strings.Cut(name, ".")
		switch {
		case group == "git":
			return fmt.Errorf("the module %s asks for %s, which a plugin of strfry cannot: run it in Talon", r.source.Manifest.Name, name)
		case group == "store" && !facts:
			return fmt.Errorf("the module %s asks for %s, and a plugin of strfry does not see what is stored: give it the events with --facts, or run it in Talon",
				r.source.Manifest.Name, name)
		}
	}
	if !r.module.Calls(guest.Admit) {
		return errors.New("the module decides about no events with these settings: strfry has nothing to ask it")
	}
	return nil
}

// Process is a plugin of strfry: a program that reads one event a line as JSON, and
// answers with one line.
type Process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	cancel context.CancelFunc
}

// processTime is how long a plugin may take for one answer.
const processTime = 10 * time.Second

// StartProcess starts a plugin as strfry does: a command with spaces is the shell's.
func StartProcess(ctx context.Context, command string, stderr io.Writer) (*Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, command)
	if strings.ContainsAny(command, " \t") {
		cmd = exec.CommandContext(ctx, "/bin/sh", "-c", "exec "+command)
	}
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the plugin: %w: want a program that can be executed", err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &Process{cmd, in, lines, cancel}, nil
}

// Ask writes a line and waits for the answer, which it returns as it is.
func (p *Process) Ask(line []byte) ([]byte, error) {
	stop := time.AfterFunc(processTime, p.cancel)
	defer stop.Stop()
	if _, err := p.in.Write(line); err != nil {
		return nil, fmt.Errorf("write to the plugin: %w: it has ended", err)
	}
	if !p.out.Scan() {
		if err := p.out.Err(); err != nil {
			return nil, fmt.Errorf("read from the plugin: %w", err)
		}
		return nil, fmt.Errorf("the plugin ended, or did not answer within %v: try it with one line of JSON by hand", processTime)
	}
	return p.out.Bytes(), nil
}

// Close ends the plugin.
func (p *Process) Close() {
	_ = p.in.Close()
	stop := time.AfterFunc(time.Second, p.cancel)
	defer stop.Stop()
	_ = p.cmd.Wait()
	p.cancel()
}

// cpu is the processor time that the plugin and whoever asks it have used.
func (p *Process) cpu() time.Duration { return ownCPU() + cpuOf(p.cmd.Process.Pid) }

// Bench times the plugin with questions about events, as [Source.Bench] times a
// module.
func (p *Process) Bench(ctx context.Context, questions []*Case, during time.Duration) (m Measured, err error) {
	lines := make([][]byte, len(questions))
	for i, q := range questions {
		lines[i] = q.strfry()
		answer, err := p.Ask(lines[i])
		if err != nil {
			return m, err
		}
		if err := checkAnswer(answer); err != nil {
			return m, fmt.Errorf("%s: %w", q.Where, err)
		}
	}
	err = m.time(ctx, len(lines), during, p.cpu, func(i int) error {
		_, err := p.Ask(lines[i])
		return err
	})
	return m, err
}

// checkAnswer reports what is wrong with a plugin's answer.
func checkAnswer(text []byte) error {
	var a sifted
	if err := json.Unmarshal(text, &a); err != nil || !slices.Contains([]string{sAccept, sReject, sShadow}, a.Action) {
		return fmt.Errorf("the plugin answered %.100q: want an id, and accept, reject or shadowReject as the action", text)
	}
	return nil
}

// strfry is the question as strfry asks it.
func (q *Case) strfry() []byte {
	s := strfrySource{Type: "new", ReceivedAt: q.Vector.Now, SourceType: "IP4", SourceInfo: string(q.Vector.Source.Address)}
	switch q.Vector.Source.Origin {
	case "import":
		s.SourceType = "Import"
	case "sync":
		s.SourceType, s.SourceInfo = "Sync", q.Vector.Source.Relay
	default:
		if strings.Contains(s.SourceInfo, ":") {
			s.SourceType = "IP6"
		}
	}
	line, _ := json.Marshal(struct {
		strfrySource
		Event json.RawMessage `json:"event"`
	}{s, eventOf(q.Vector.Event).JSON})
	return append(line, '\n')
}

// Command returns the command line of what a module is compared with: exec:PATH.
func Command(against string) (string, error) {
	command, ok := strings.CutPrefix(against, "exec:")
	if !ok || strings.TrimSpace(command) == "" {
		return "", fmt.Errorf("against %.80q: want exec:PATH, a plugin of strfry", against)
	}
	command = strings.TrimSpace(command)
	if info, err := os.Stat(command); err == nil && info.IsDir() {
		return "", errors.New("against exec:" + command + ": this is a folder, want a program")
	}
	if strings.ContainsAny(command, " \t") {
		return command, nil // the shell finds it
	}
	if _, err := exec.LookPath(command); err != nil {
		return "", fmt.Errorf("against %w: want a program that can be executed", err)
	}
	return command, nil
}

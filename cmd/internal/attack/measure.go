package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say how attacks are measured.
type Options struct {
	Program string        // the talon binary
	Flags   []string      // further flags of talon serve; {maintainer} in them is the maintainer's key
	Alone   time.Duration // length of the phase before the attack
	Phase   time.Duration // length of the attack
	Count   int           // instead of the attack's; 0 means that one
	Self    string        // this program, which plays the attackers if its first argument is "play"
	Dir     string        // folder for all files; it is emptied after each attack
}

// Crew is what the process of the attackers gets as its second argument, in JSON.
type Crew struct {
	Name   string
	Count  int
	Target Target
}

// Play is the process of the attackers. It prepares and writes a line. Then it reads lines: one begins
// an attack, the next or the end of the input ends it. Its last line is the outcome, in JSON.
func Play(text string, in io.Reader, out io.Writer) error {
	var c Crew
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("read the crew: %w", err)
	}
	for _, a := range All() {
		if a.Name != c.Name {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		run, err := a.Prepare(ctx, &c.Target, c.Count)
		if err != nil {
			return fmt.Errorf("prepare %s: %w", a.Name, err)
		}
		fmt.Fprintln(out, "ready")
		var sum Outcome
		for lines := bufio.NewScanner(in); lines.Scan(); {
			attacking, stop := context.WithCancel(ctx)
			ended := make(chan Outcome, 1)
			go func() { ended <- run(attacking) }()
			lines.Scan()
			stop()
			sum.add(<-ended)
		}
		return json.NewEncoder(out).Encode(sum)
	}
	return fmt.Errorf("there is no attack %q", c.Name)
}

// crew is the process of the attackers, seen from outside.
type crew struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// idlePriority is the nice value of attackers: their own work must not look like the server's.
const idlePriority = "19"

func startCrew(o *Options, c Crew) (*crew, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &crew{cmd: exec.Command("nice", "-n", idlePriority, o.Self, "play", string(text))}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the attackers: %w", err)
	}
	p.out = bufio.NewScanner(out)
	if !p.out.Scan() {
		return nil, fmt.Errorf("start the attackers: %w", errors.Join(p.cmd.Wait(), p.out.Err()))
	}
	return p, nil
}

// attack begins an attack, and standIdle ends it until the next.
func (p *crew) attack()    { _, _ = io.WriteString(p.in, "attack\n") }
func (p *crew) standIdle() { _, _ = io.WriteString(p.in, "rest\n") }

// stop ends the process.
func (p *crew) stop() (o Outcome) {
	_ = p.in.Close()
	kill := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if p.out.Scan() {
		_ = json.Unmarshal(p.out.Bytes(), &o)
	}
	_ = p.cmd.Wait()
	return o
}

const (
	// restTime is how long attackers rest before honest people are measured alone again.
	restTime = 2 * time.Second

	// settle is how long a server may take until its disk, memory and processes are level.
	settle = 20 * time.Second

	// diskGrowth and memoryGrowth are what may remain: the pushes of the honest people, and
	// the caches of the server.
	diskGrowth   = 64 << 20
	memoryGrowth = 256 << 20

	// socketFloor is the p99 in ms that a websocket or a page may always have, and slower how
	// many times slower than alone everything may be.
	socketFloor = 50
	slower      = 3
)

// Measure runs an attack against a new server. [Judge] compares the phases.
func Measure(ctx context.Context, a Attack, o Options) (*Result, error) {
	dir, err := os.MkdirTemp(o.Dir, a.Name)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	people, strangers := filepath.Join(dir, "people"), filepath.Join(dir, "strangers")
	if err := errors.Join(os.Mkdir(people, 0o700), os.Mkdir(strangers, 0o700)); err != nil {
		return nil, err
	}
	flags := slices.Concat(a.Flags, o.Flags)
	for i, f := range flags {
		flags[i] = strings.ReplaceAll(f, "{maintainer}", newPerson(maintainerName).key.String())
	}
	s, err := startServer(ctx, o.Program, dir, flags)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	t := &Target{Listen: s.listen, Dir: strangers, Blob: 40 << 20}
	b, err := newBystanders(ctx, t, people, (o.Alone+o.Phase)/2)
	if err != nil {
		return nil, err
	}
	if o.Count > 0 {
		a.Count = o.Count
	}
	p, err := startCrew(&o, Crew{a.Name, a.Count, *t})
	if err != nil {
		return nil, err
	}
	defer p.stop()

	r := &Result{Name: a.Name, Text: a.Text, Count: a.Count, Unit: a.Unit, Operations: map[string]Operation{}, LoadAlone: load()}
	r.alone, r.under = newSamples(), newSamples()
	rounds := max(1, a.Rounds)
	for round := range rounds {
		used := measureProcessor(s.cmd.Process.Pid, p.cmd.Process.Pid)
		r.alone.addAll(b.run(ctx, o.Alone/time.Duration(rounds)))
		r.ProcessorAlone.add(used(), rounds)
		if round == 0 {
			r.Before, r.Load = s.usage(), load()
			r.Peak = r.Before
		}
		used = measureProcessor(s.cmd.Process.Pid, p.cmd.Process.Pid)
		unwatch := r.watch(ctx, s)
		p.attack()
		r.under.addAll(b.run(ctx, o.Phase/time.Duration(rounds)))
		r.Processor.add(used(), rounds)
		unwatch()
		if round < rounds-1 {
			p.standIdle()
			pause(ctx, restTime)
		}
	}
	r.Outcome = p.stop()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.After = s.level(ctx, r.Before, a.disk())
	if !s.alive() {
		r.Crash = s.lastLog()
	}
	r.attack = &a
	return r, nil
}

// watch notes the most that the server uses of the machine until unwatch is called.
func (r *Result) watch(ctx context.Context, s *server) (unwatch func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil && s.alive(); pause(ctx, 2*time.Second) {
			r.Peak.max(s.usage())
		}
	}()
	return func() { cancel(); <-ended }
}

func (a *Attack) disk() int64 {
	if a.Disk > 0 {
		return a.Disk
	}
	return diskGrowth
}

// level waits until the server's use of the machine is level, at most the time to settle.
func (s *server) level(ctx context.Context, before Usage, disk int64) (u Usage) {
	for until := time.Now().Add(settle); ; pause(ctx, time.Second) {
		u = s.usage()
		if !s.alive() || time.Now().After(until) || ctx.Err() != nil || len(u.findings(before, disk)) == 0 {
			return u
		}
	}
}

func (u *Usage) max(v Usage) {
	u.Disk, u.Memory, u.Files = max(u.Disk, v.Disk), max(u.Memory, v.Memory), max(u.Files, v.Files)
	u.Children, u.Stopped, u.Sockets = max(u.Children, v.Children), max(u.Stopped, v.Stopped), max(u.Sockets, v.Sockets)
}

// findings says what is not level.
func (u *Usage) findings(before Usage, disk int64) (list []string) {
	if by := u.Disk - before.Disk; by > disk {
		list = append(list, fmt.Sprintf("the data folder grew by %s, at most %s are right", megabytes(by), megabytes(disk)))
	}
	if by := u.Memory - before.Memory; by > memoryGrowth {
		list = append(list, fmt.Sprintf("memory grew by %s, at most %s are right", megabytes(by), megabytes(memoryGrowth)))
	}
	if u.Children > 0 {
		list = append(list, fmt.Sprintf("%d processes of the server remain, %d of them stopped", u.Children, u.Stopped))
	}
	return list
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Progress shows the steps of a command to a person. All methods are safe for concurrent use; the
// format strings follow fmt and may be "" where a method's comment says so.
type Progress interface {
	// Step begins a step; a step that is still open is ended as done.
	Step(format string, args ...any)
	// Info says something within a step, or between steps.
	Info(format string, args ...any)
	// Warn is Info that deserves attention.
	Warn(format string, args ...any)
	// Done ends the step; the text, if any, follows its title.
	Done(format string, args ...any)
	// Fail ends the step as failed.
	Fail(format string, args ...any)
	// Close ends what is still drawn; the Progress may not be used after it.
	Close()
}

// spinnerPeriod is the time between two frames on a terminal.
const spinnerPeriod = 120 * time.Millisecond

// NewProgress writes to w, normally stderr: a spinner on a terminal, one line for each finished
// step otherwise. c nil means the real clock.
func NewProgress(w io.Writer, s Style, c clock.WithTicker) Progress {
	if c == nil {
		c = clock.RealClock{}
	}
	return &lines{w: w, style: s, clock: c}
}

// Quiet is a Progress that shows nothing.
func Quiet() Progress { return quiet{} }

// Warnings is a Progress that shows of another one the warnings and the steps that fail.
func Warnings(p Progress) Progress { return &warnings{Progress: p} }

type warnings struct {
	Progress
	title string
}

func (w *warnings) Step(format string, args ...any) { w.title = fmt.Sprintf(format, args...) }
func (*warnings) Info(string, ...any)               {}
func (w *warnings) Done(string, ...any)             { w.title = "" }

func (w *warnings) Fail(format string, args ...any) {
	if w.title != "" {
		w.Progress.Step("%s", w.title)
		w.Progress.Fail(format, args...)
	}
	w.title = ""
}

// Late is a Progress that shows of another one what takes longer than a time, and nothing else: for commands whose result
// says it all.
func Late(p Progress, after time.Duration) Progress { return &late{Progress: p, after: after} }

type late struct {
	Progress
	after time.Duration
	timer *time.Timer
}

func (l *late) Step(format string, args ...any) {
	l.stop()
	title := fmt.Sprintf(format, args...)
	l.timer = time.AfterFunc(l.after, func() { l.Progress.Info("%s", title) })
}

func (*late) Info(string, ...any)   {}
func (l *late) Done(string, ...any) { l.stop() }
func (l *late) Fail(string, ...any) { l.stop() }
func (l *late) Close()              { l.stop() }

func (l *late) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

type quiet struct{}

func (quiet) Step(string, ...any) {}
func (quiet) Info(string, ...any) {}
func (quiet) Warn(string, ...any) {}
func (quiet) Done(string, ...any) {}
func (quiet) Fail(string, ...any) {}
func (quiet) Close()              {}

type lines struct {
	w     io.Writer
	style Style
	clock clock.WithTicker

	mu      sync.Mutex
	title   string // of the open step; "" = none
	started time.Time
	frame   int
	drawn   bool // a spinner line stands on the terminal
	stop    chan struct{}
	stopped chan struct{}
}

func (p *lines) Step(format string, args ...any) {
	p.end(SymbolOK, "")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.title, p.started = fmt.Sprintf(format, args...), p.clock.Now()
	if p.style.TTY {
		p.stop, p.stopped = make(chan struct{}), make(chan struct{})
		p.draw()
		go p.spin(p.stop, p.stopped, p.clock.NewTicker(spinnerPeriod))
	}
}

func (p *lines) Info(format string, args ...any) { p.say(SymbolArrow, format, args...) }

func (p *lines) Warn(format string, args ...any) { p.say(SymbolWarning, format, args...) }

func (p *lines) Done(format string, args ...any) { p.end(SymbolOK, fmt.Sprintf(format, args...)) }

func (p *lines) Fail(format string, args ...any) { p.end(SymbolFailed, fmt.Sprintf(format, args...)) }

func (p *lines) Close() { p.end(SymbolUnknown, "not finished") }

func (p *lines) say(y Symbol, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	indent := 2 + p.style.SymbolWidth() + 1
	p.print(p.style.Indented("  "+p.style.Symbol(y)+" ", indent, fmt.Sprintf(format, args...)))
	if p.style.TTY && p.title != "" {
		p.draw()
	}
}

// end closes the open step, if there is one.
func (p *lines) end(y Symbol, detail string) {
	p.halt()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.title == "" {
		return
	}
	text := p.title
	if detail != "" {
		text += ": " + detail
	}
	if d := p.clock.Since(p.started); d >= time.Second {
		text += " " + p.style.Paint(Faint, fmt.Sprintf("(%.1fs)", d.Seconds()))
	}
	p.clear()
	p.print(p.style.Indented(p.style.Symbol(y)+" ", p.style.SymbolWidth()+1, text))
	p.title = ""
}

// halt ends the spinner.
func (p *lines) halt() {
	p.mu.Lock()
	stop, stopped := p.stop, p.stopped
	p.stop, p.stopped = nil, nil
	p.mu.Unlock()
	if stop != nil {
		close(stop)
		<-stopped
	}
}

func (p *lines) spin(stop, stopped chan struct{}, t clock.Ticker) {
	defer close(stopped)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C():
			p.mu.Lock()
			p.frame++
			p.draw()
			p.mu.Unlock()
		}
	}
}

// draw shows the open step on the terminal's last line. The caller holds mu.
func (p *lines) draw() {
	frames := []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	if !p.style.Unicode {
		frames = []string{"|", "/", "-", "\\"}
	}
	title := []rune(p.title)
	if room := p.style.Width - 3; p.style.Width > 0 && len(title) > room {
		title = title[:max(room, 0)]
	}
	p.clear()
	p.print(frames[p.frame%len(frames)] + " " + string(title))
	p.drawn = true
}

// clear removes the spinner's line. The caller holds mu.
func (p *lines) clear() {
	if p.drawn {
		p.print(terminal.Own("\r\x1b[K"))
		p.drawn = false
	}
}

// print ignores errors: where nobody reads there is nobody to tell.
func (p *lines) print(s string) { _, _ = io.WriteString(p.w, s) }

// Retitle changes the title of the open step, where p shows one.
func Retitle(p Progress, format string, args ...any) {
	l, ok := p.(*lines)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.title == "" {
		return
	}
	l.title = fmt.Sprintf(format, args...)
	if l.style.TTY {
		l.draw()
	}
}

// Clear ends the open step without a word, for a result that follows and says it all.
func Clear(p Progress) {
	l, ok := p.(*lines)
	if !ok {
		return
	}
	l.halt()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	l.title = ""
}

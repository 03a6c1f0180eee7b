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

// Progress shows the steps of a command: with a spinner on a terminal, otherwise with one line for each finished step.
// All methods are safe for concurrent use; format strings are those of package fmt.
type Progress struct {
	// Quiet suppresses everything except warnings and failed steps.
	Quiet bool

	w     io.Writer
	style Style
	clock clock.PassiveClock

	mu      sync.Mutex
	title   string // title of the open step; "" = none
	started time.Time
	frame   int
	drawn   bool        // whether the spinner is on the terminal
	spinner *time.Timer // draws the next frame of the open step
}

// spinnerPeriod is the time between two frames of the spinner.
const spinnerPeriod = 120 * time.Millisecond

// NewProgress returns a Progress that writes to w, normally stderr. If c is nil, it uses the real clock.
func NewProgress(w io.Writer, s Style, c clock.PassiveClock) *Progress {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Progress{w: w, style: s, clock: c}
}

// NoProgress returns a Progress that shows nothing.
func NoProgress() *Progress { return NewProgress(io.Discard, Style{}, nil) }

// Step begins a step. If a step is still open, it ends as done.
func (p *Progress) Step(format string, args ...any) {
	p.end(SymbolOK, "")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.title, p.started = fmt.Sprintf(format, args...), p.clock.Now()
	if p.style.TTY && !p.Quiet {
		p.draw()
		p.spinner = time.AfterFunc(spinnerPeriod, p.spin)
	}
}

func (p *Progress) spin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn { // false if the step has ended in the meantime
		p.frame++
		p.draw()
		p.spinner.Reset(spinnerPeriod)
	}
}

// Retitle changes the title of the open step.
func (p *Progress) Retitle(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.title == "" {
		return
	}
	p.title = fmt.Sprintf(format, args...)
	if p.drawn {
		p.draw()
	}
}

// Info prints a message within or between steps.
func (p *Progress) Info(format string, args ...any) {
	if !p.Quiet {
		p.say(SymbolArrow, format, args...)
	}
}

// Warn prints a warning.
func (p *Progress) Warn(format string, args ...any) { p.say(SymbolWarning, format, args...) }

// Done ends the step; if there is text, it follows the title.
func (p *Progress) Done(format string, args ...any) { p.end(SymbolOK, fmt.Sprintf(format, args...)) }

// Fail ends the step as failed.
func (p *Progress) Fail(format string, args ...any) {
	p.end(SymbolFailed, fmt.Sprintf(format, args...))
}

// Clear ends the open step without printing anything, if a result with all information follows.
func (p *Progress) Clear() { p.end(SymbolSkipped, "") }

// Close ends the open step; the Progress must not be used afterwards.
func (p *Progress) Close() { p.end(SymbolUnknown, "not finished") }

func (p *Progress) say(y Symbol, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	drawn := p.drawn
	p.clear()
	p.print(p.style.Indented("  "+p.style.Symbol(y)+" ", 2+p.style.SymbolWidth()+1, fmt.Sprintf(format, args...)))
	if drawn {
		p.draw()
	}
}

// end ends the open step, if there is one.
func (p *Progress) end(y Symbol, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clear(); p.spinner != nil {
		p.spinner.Stop()
	}

	text := p.title
	p.title = ""
	if text == "" || y == SymbolSkipped || p.Quiet && y != SymbolFailed {
		return
	}
	if detail != "" {
		text += ": " + detail
	}
	if d := p.clock.Since(p.started); d >= time.Second {
		text += " " + p.style.Paint(Faint, fmt.Sprintf("(%.1fs)", d.Seconds()))
	}
	p.print(p.style.Indented(p.style.Symbol(y)+" ", p.style.SymbolWidth()+1, text))
}

// draw shows the open step on the terminal's last line. The caller holds mu.
func (p *Progress) draw() {
	frames := []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	if !p.style.Unicode {
		frames = []string{"|", "/", "-", "\\"}
	}

	title := []rune(p.title)
	if p.style.Width > 0 {
		title = title[:min(len(title), max(p.style.Width-3, 0))]
	}
	p.clear()
	p.print(frames[p.frame%len(frames)] + " " + string(title))
	p.drawn = true
}

// clear removes the spinner's line. The caller holds mu.
func (p *Progress) clear() {
	if p.drawn {
		p.print(terminal.Own("\r\x1b[K"))
		p.drawn = false
	}
}

// print ignores write errors: there is no other place to report them.
func (p *Progress) print(s string) { _, _ = io.WriteString(p.w, s) }

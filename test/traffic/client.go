// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Target is a Service's port as its clients reach it.
type Target struct {
	Name string
	// Address is asked before every connection: while a rule is made anew it may be another, or none.
	Address func() (string, error)
}

// At is a target that stays where it is.
func At(name, address string) Target {
	return Target{Name: name, Address: func() (string, error) { return address, nil }}
}

// Options of a client.
type Options struct {
	Targets []Target
	// Rate is the number of requests per second over all targets; 0 means 200.
	Rate int
	// Timeout of a request; 0 means 5 s.
	Timeout time.Duration
	// Open is the number of connections that are kept open to each target, and asked all the time; 0 means 1, less none.
	// Behind a balancer that ends connections with each answer, they are made anew.
	Open int
}

const (
	defaultRate    = 200
	defaultTimeout = 5 * time.Second
	openPeriod     = 100 * time.Millisecond
	// crowd bounds the requests at once. Where so many wait no more are sent: either they are lost, which each of them
	// will say when its time is up, or the machine is too slow for the rate, which is no loss.
	crowd = 2000
)

// Client sends requests until it is stopped.
type Client struct {
	o      Options
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{}
	stop   sync.Once
	last   Report
	kept   atomic.Int64 // answers by connections that are kept open

	mu      sync.Mutex
	current *record
	reports []Report
}

// Start begins with a part of that name. Every request is a connection of its own.
func Start(ctx context.Context, part string, o Options) *Client {
	if o.Rate == 0 {
		o.Rate = defaultRate
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Open == 0 {
		o.Open = 1
	}
	c := &Client{o: o, slots: make(chan struct{}, crowd), current: newRecord(part, o.Targets, time.Now())}
	begin, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.wg.Go(func() { c.send(begin, ctx) })
	for _, t := range o.Targets {
		for range o.Open {
			c.wg.Go(func() { c.keep(begin, t) })
		}
	}
	return c
}

// Next ends the part and begins another one; requests count where they began, if they have ended.
func (c *Client) Next(part string) Report { return c.next(part, time.Now()) }

func (c *Client) next(part string, now time.Time) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.current.end(now)
	c.reports = append(c.reports, r)
	c.current = newRecord(part, c.o.Targets, now)
	return r
}

// Stop waits for the requests on their way, which count, and returns the last part. That wait is no gap.
// Stopping again changes nothing.
func (c *Client) Stop() Report {
	c.stop.Do(func() {
		c.cancel()
		now := time.Now()
		c.part().hush(now)
		c.wg.Wait()
		c.last = c.next("", now)
	})
	return c.last
}

// Reports are those of all parts that have ended.
func (c *Client) Reports() []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Report{}, c.reports...)
}

func (c *Client) part() *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// send starts requests at the rate, to one target after the other, until begin is done: those
// on their way go on, and count. What a busy machine holds up is made good for.
func (c *Client) send(begin, ctx context.Context) {
	tick := time.NewTicker(max(time.Second/time.Duration(c.o.Rate), time.Millisecond))
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-begin.Done():
			return
		case now := <-tick.C:
			due := int(now.Sub(began).Seconds() * float64(c.o.Rate))
			if due-sent > c.o.Rate { // nobody was scheduled for a second: what is long over is not sent late
				sent = due - c.o.Rate
			}
			for ; sent < due; sent++ {
				t := c.o.Targets[sent%len(c.o.Targets)]
				select {
				case c.slots <- struct{}{}:
					c.wg.Go(func() { c.request(ctx, t); <-c.slots })
				default:
				}
			}
		}
	}
}

// request is a whole request: connect, ask, read the answer.
func (c *Client) request(ctx context.Context, t Target) {
	part := c.part()
	s, err := c.open(ctx, t)
	var backend string
	if err == nil {
		backend, err = s.ask(c.o.Timeout)
		s.close()
	}
	switch {
	case err == nil:
		part.answered(t.Name, backend, time.Now())
	case ctx.Err() == nil: // else all is over
		part.failed(t.Name, plain(err))
	}
}

// keep holds a connection open and asks all the time. One that breaks is replaced.
func (c *Client) keep(ctx context.Context, t Target) {
	tick := time.NewTicker(openPeriod)
	defer tick.Stop()
	var s *session
	defer func() { s.close() }()
	for {
		if s == nil {
			s, _ = c.open(ctx, t) // that nobody answers is what requests find
		}
		if s != nil {
			_, err := s.ask(c.o.Timeout)
			if err == nil {
				c.kept.Add(1)
			}
			if err != nil && s.asked > 1 { // one that never had an answer is a failed request, not a cut
				c.part().cut(t.Name, plain(err))
			}
			if err != nil || s.ended {
				s.close()
				s = nil
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// session is a connection with a counter of its requests.
type session struct {
	conn  net.Conn
	in    *bufio.Reader
	asked int
	ended bool // the last answer said that no other will come: a balancer that reads HTTP does so
}

func (c *Client) open(ctx context.Context, t Target) (*session, error) {
	address, err := t.Address()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (s *session) close() {
	if s != nil {
		_ = s.conn.Close() // its answers have been read
	}
}

// ask sends a request and wants an answer to it with the backend's name.
func (s *session) ask(limit time.Duration) (backend string, err error) {
	s.asked++
	if err := s.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	question := fmt.Sprintf("/request-%d", s.asked)
	if _, err := fmt.Fprintf(s.conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", question, s.conn.RemoteAddr()); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(s.in, nil)
	if err != nil {
		return "", err
	}
	s.ended = resp.Close
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answer %s", resp.Status)
	}
	backend, echo, _ := strings.Cut(strings.TrimSpace(string(body)), " ")
	if echo != question {
		return "", fmt.Errorf("the answer %q is not one to %q", body, question)
	}
	return backend, nil
}

// plain is an error without ports that differ from one connection to the next, so that equal ones are counted together.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Timeout() {
			return fmt.Errorf("%s: time-out", op.Op)
		}
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

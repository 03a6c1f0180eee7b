// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"cmp"
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

	"github.com/csccm/csccm/test/internal/must"
)

// Options configures a client.
type Options struct {
	Targets []string // addresses of Services' ports
	// Open keeps a connection to each target open and sends requests on it all the time. If a load balancer closes it
	// after a response, it is opened again.
	Open bool
	// Timeout is the time-out of a request; 0 means 5 s.
	Timeout time.Duration
	rate    int // requests per second over all targets; 0 means 200
}

const (
	defaultRate    = 200
	defaultTimeout = 5 * time.Second
	openPeriod     = 100 * time.Millisecond
	// maxInFlight limits the requests in flight. At this limit no more requests are sent: either those in flight are
	// lost, which their time-outs will report, or the machine is too slow for the rate, which is not a loss.
	maxInFlight = 2000
)

// Client sends requests until it is stopped.
type Client struct {
	o      Options
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{}
	stop   sync.Once
	last   Report
	kept   atomic.Int64 // answers on connections that are kept open

	mu      sync.Mutex
	current *record
	reports []Report
}

// Start starts a client. part is the name of its first part. Every request uses a new connection.
func Start(ctx context.Context, part string, o Options) *Client {
	o.rate, o.Timeout = cmp.Or(o.rate, defaultRate), cmp.Or(o.Timeout, defaultTimeout)
	c := &Client{o: o, slots: make(chan struct{}, maxInFlight), current: newRecord(part, o.Targets, time.Now())}
	begin, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.wg.Go(func() { c.send(begin, ctx) })
	for _, t := range o.Targets {
		if o.Open {
			c.wg.Go(func() { c.keep(begin, t) })
		}
	}
	return c
}

// Next ends the current part, returns its report and starts another part. A request counts for the part in which it
// started. If it ends after that part, it does not count.
func (c *Client) Next(part string) Report { return c.next(part, time.Now()) }

func (c *Client) next(part string, now time.Time) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.current.end(now)
	c.reports = append(c.reports, r)
	c.current = newRecord(part, c.o.Targets, now)
	return r
}

// Stop stops the client, waits for the requests in flight, which still count, and returns the report of the last part.
// The waiting time does not count as a gap. Further calls return the same report.
func (c *Client) Stop() Report {
	c.stop.Do(func() {
		c.cancel()
		now := time.Now()
		c.part().endGaps(now)
		c.wg.Wait()
		c.last = c.next("", now)
	})
	return c.last
}

// Reports returns the reports of all parts that have ended.
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

// send starts requests at the rate, to the targets in turn, until begin is done. Requests in flight then continue with
// ctx, and count. If the machine is busy, requests are sent late.
func (c *Client) send(begin, ctx context.Context) {
	tick := time.NewTicker(max(time.Second/time.Duration(c.o.rate), time.Millisecond))
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-begin.Done():
			return
		case now := <-tick.C:
			due := int(now.Sub(began).Seconds() * float64(c.o.rate))
			if due-sent > c.o.rate { // requests that are more than a second late are skipped
				sent = due - c.o.rate
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

// request connects, sends one request and reads the answer.
func (c *Client) request(ctx context.Context, t string) {
	part := c.part()
	s, err := c.open(ctx, t)
	var backend string
	if err == nil {
		backend, err = s.ask(c.o.Timeout)
		s.close()
	}
	switch {
	case err == nil:
		part.answered(t, backend, time.Now())
	case ctx.Err() == nil: // otherwise the test has ended, which is not a failure
		part.failed(t, withoutPorts(err))
	}
}

// keep keeps a connection open and sends requests on it all the time. It replaces a connection that breaks.
func (c *Client) keep(ctx context.Context, t string) {
	tick := time.NewTicker(openPeriod)
	defer tick.Stop()
	var s *session
	defer func() { s.close() }()
	for {
		if s == nil {
			s, _ = c.open(ctx, t) // errors are ignored: request counts failures to connect
		}

		if s != nil {
			_, err := s.ask(c.o.Timeout)
			if err == nil {
				c.kept.Add(1)
			}

			if err != nil && s.asked > 1 { // an error of the first request is not a cut of an open connection
				c.part().cut(t, withoutPorts(err))
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

// session is a connection that counts its requests.
type session struct {
	conn  net.Conn
	in    *bufio.Reader
	asked int
	ended bool // the last response had "Connection: close", which load balancers that parse HTTP send
}

func (c *Client) open(ctx context.Context, t string) (_ *session, err error) {
	defer must.Return(&err)
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	conn := must.Get((&net.Dialer{}).DialContext(ctx, "tcp", t))
	return &session{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (s *session) close() {
	if s != nil {
		_ = s.conn.Close() // all responses have been read
	}
}

// ask sends a request, checks that the answer belongs to it and returns the backend's name.
func (s *session) ask(limit time.Duration) (backend string, err error) {
	defer must.Return(&err)
	s.asked++
	must.OK(s.conn.SetDeadline(time.Now().Add(limit)))
	question := fmt.Sprintf("/steady/%d", s.asked)
	must.Get(fmt.Fprintf(s.conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", question, s.conn.RemoteAddr()))
	resp, err := http.ReadResponse(s.in, nil)
	if err != nil {
		return "", err
	}

	s.ended = resp.Close
	body, err := io.ReadAll(resp.Body)
	must.OK(errors.Join(err, resp.Body.Close()))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answer %s", resp.Status)
	}

	backend, echo, _ := strings.Cut(strings.TrimSpace(string(body)), " ")
	if echo != question {
		return "", fmt.Errorf("the answer %q does not belong to the request %q", body, question)
	}

	return backend, nil
}

// withoutPorts removes the addresses from a network error. Each connection has another client port, and equal errors
// are counted together.
func withoutPorts(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Timeout() {
			return fmt.Errorf("%s: time-out", op.Op)
		}
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/csccm/csccm/pkg/version"
)

const (
	maxAnswerSize = 32 << 20 // bytes; 500 VMs are about 1 MB
	longAnswer    = 16 << 10
	commandLogin  = "login"
	// Sensitive parameters. Their values are removed from every text about a call.
	paramPassword  = "password"
	paramSignature = "signature"
)

// exchange performs one call: it waits for the rate limit, signs and sends the call, and repeats what can be repeated
// safely. read decodes a successful answer. It gets a long answer while that arrives, and is called again after a
// broken connection. If read itself fails, the call ends.
func (c *Client) exchange(ctx context.Context, form url.Values, read func(answer io.Reader) error) *Error {
	command := form.Get("command")
	if c.readLimit > 0 && idempotent(command) {
		limited, cancel := context.WithTimeout(ctx, c.readLimit)
		defer cancel()
		ctx = limited
	}

	tries := defaultTries
	if ctx.Value(singleTry{}) != nil {
		tries = 1
	}

	var last *Error
	for try := 1; ; try++ {
		done, err := c.admit(ctx)
		if err != nil {
			if last != nil {
				return last // the last failure says more than the end of the context
			}
			return c.notSent(command, err)
		}

		leave, err := c.enter(command)
		if err != nil {
			done()
			return c.notSent(command, err)
		}

		start, a := c.clock.Now(), c.access.Load()
		signed := maps.Clone(form)
		a.proof.Sign(signed, start)
		res := c.attempt(ctx, a, command, signed, read)
		leave()
		done()
		c.observe(command, c.clock.Since(start), res)
		if res.err == nil {
			return nil
		}

		secrets := append(c.secrets(), signed.Get(paramSignature)) // the keys may have changed during the call
		for name := range form {
			if strings.HasSuffix(name, paramPassword) { // of a user, or of a registry
				secrets = append(secrets, form.Get(name))
			}
		}

		res.err.Text = sanitized(res.err.Text, secrets...)
		if cause := res.err.Err; cause != nil {
			if clean := sanitized(cause.Error(), secrets...); clean != cause.Error() {
				res.err.Err = errors.New(clean) // a proxy or transport has included parts of the request
			}
		}

		if res.status == http.StatusTooManyRequests {
			c.throttled(res.throttled)
		}

		if res.tries > 0 {
			tries = min(tries, res.tries)
		}

		if !res.retry || try >= tries || ctx.Err() != nil {
			return res.err
		}

		if err := sleep(ctx, c.clock, c.retryDelay(try, res)); err != nil {
			return res.err
		}

		last = res.err
		apiRetries.Inc()
	}
}

// singleTry is the key of a context whose calls are not repeated.
type singleTry struct{}

// result is the outcome of one attempt.
type result struct {
	err       *Error
	status    int           // HTTP status; 0 when no answer came
	retry     bool          // the same call may be sent again without harm
	tries     int           // limit of all tries; 0 means the limit of the call
	throttled time.Duration // how long the server wants to get no calls
}

// attempt sends a signed form once.
func (c *Client) attempt(
	ctx context.Context, a *access, command string, form url.Values, read func(answer io.Reader) error,
) result {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()

	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := c.newRequest(traced, a, form)
	if err != nil {
		return result{
			err: &Error{Kind: KindInvalid, Command: command, Text: "cannot build the request: " + err.Error()},
		}
	}

	base := a.base
	if c.wrap != nil {
		base = c.wrap(base)
	}

	resp, err := base.RoundTrip(req)
	if err != nil {
		unsent := isDialError(err) || (a.ownBase && !connected.Load())
		return c.networkFailure(ctx, command, 0, unsent, err)
	}
	defer func() { _ = resp.Body.Close() }()

	c.noteTime(resp)
	return c.receive(ctx, command, resp, read)
}

// receive reads an answer.
func (c *Client) receive(
	ctx context.Context, command string, resp *http.Response, read func(answer io.Reader) error,
) result {
	body := &answerBody{from: io.LimitedReader{R: resp.Body, N: maxAnswerSize + 1}}
	answer := bufio.NewReaderSize(body, longAnswer)
	begin, _ := answer.Peek(longAnswer) // body keeps the error
	res := result{status: resp.StatusCode}
	if len(begin) < longAnswer || resp.StatusCode != http.StatusOK || !wraps(begin) {
		whole, _ := io.ReadAll(answer)
		if res := c.arrived(ctx, command, resp.StatusCode, body); res.err != nil {
			return res
		}
		if res = c.judge(command, resp, whole); res.err != nil {
			return res
		}
		answer.Reset(bytes.NewReader(whole))
	}

	err := read(answer)
	if res := c.arrived(ctx, command, resp.StatusCode, body); res.err != nil {
		return res
	}

	if err != nil {
		res.err = BadAnswer(command, "cannot understand the answer: "+err.Error())
		return res
	}

	// Only EOF is left to read. net/http reuses the connection only after it was read.
	_, _ = io.Copy(io.Discard, body)
	return res
}

// answerBody is an answer that is read while it arrives. err is the network error that broke it off, as opposed to
// content that cannot be parsed. The limit of the reader from is used up if the answer is too long.
type answerBody struct {
	from io.LimitedReader
	err  error
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// arrived returns the failure of an answer that broke off while it was read, or that is too long.
func (c *Client) arrived(ctx context.Context, command string, status int, body *answerBody) result {
	switch {
	case body.err != nil:
		return c.networkFailure(ctx, command, status, false, body.err)
	case body.from.N <= 0:
		return result{status: status, err: &Error{
			Kind: KindInvalid, Command: command, HTTPCode: status,
			Text: "the answer is larger than 32 MiB", MayHaveHappened: !idempotent(command),
		}}
	}
	return result{}
}

// newRequest puts the whole form into the body of a POST to the bare URL: no key, signature or password is ever part of
// a URL.
func (c *Client) newRequest(ctx context.Context, a *access, form url.Values) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.endpoint.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("api-url is not usable")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "csccm/"+version.Version)
	return req, nil
}

// judge classifies an answer as a success or an error.
func (c *Client) judge(command string, resp *http.Response, body []byte) result {
	res := result{status: resp.StatusCode}
	_, inner := unwrap(body)
	if resp.StatusCode == http.StatusOK && inner != nil {
		return res
	}

	e := errorFromAnswer(command, resp.StatusCode, body)
	if to, err := resp.Location(); err == nil { // without the query, which may contain the key
		e.Text += "; it leads to " + to.Scheme + "://" + to.Host + to.Path
	}

	res.err = e
	fromAPI := inner != nil // the management server itself has refused
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		// The server has refused the call before it did anything, so writes may be repeated too.
		res.retry = true
		res.throttled = delayFromText(e.Text)
	case resp.StatusCode == http.StatusServiceUnavailable && fromAPI:
		res.retry = true
	case e.Kind == KindTransient:
		res.retry = idempotent(command)
		// A proxy's 502 or 504 says nothing about what the server did.
		e.MayHaveHappened = !idempotent(command) && !fromAPI
	case resp.StatusCode == codeInternal && fromAPI:
		res.retry, res.tries = idempotent(command), internalTries
	case !fromAPI && resp.StatusCode == http.StatusOK:
		e.MayHaveHappened = !idempotent(command) && len(body) == 0
	case resp.StatusCode == http.StatusUnauthorized:
		_, signed := c.access.Load().proof.(keys)
		if offset, known := c.ClockOffset(); known && signed {
			e.Text += skewText(offset)
		}
	}

	return res
}

// networkFailure returns the result of a call without a complete answer.
func (c *Client) networkFailure(ctx context.Context, command string, status int, unsent bool, err error) result {
	e := &Error{Kind: KindTransient, Command: command, Err: err}
	e.MayHaveHappened = !unsent && !idempotent(command)
	fault := TLSFaultOf(err)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		e.Text, e.Err = "no answer in time", context.DeadlineExceeded
	case errors.Is(ctx.Err(), context.Canceled):
		e.Text, e.Err = "cancelled", context.Canceled
	case fault != TLSFine:
		e.Text = "the server's certificate is not trusted (" + fault.text() + "): " + err.Error()
	default:
		e.Text = "cannot reach the API: " + err.Error()
	}
	return result{err: e, status: status, retry: (unsent || idempotent(command)) && fault == TLSFine}
}

// notSent returns the error of a call that ended while it waited for the rate limit or the write gate.
func (c *Client) notSent(command string, err error) *Error {
	e := &Error{Kind: KindTransient, Command: command, Text: "not sent: " + err.Error(), Err: err}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pausedUntil.After(c.clock.Now()) {
		e.Kind = KindThrottled
	}
	return e
}

// enter passes the write gate, if there is one, before a command that changes something.
func (c *Client) enter(command string) (leave func(), err error) {
	if c.gate == nil || idempotent(command) {
		return func() {}, nil
	}
	return c.gate()
}

// isDialError reports whether the connection was never made.
func isDialError(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	var dns *net.DNSError
	return errors.As(err, &dns)
}

// idempotent reports whether a command can be sent twice without harm.
func idempotent(command string) bool {
	return strings.HasPrefix(command, "list") ||
		strings.HasPrefix(command, "get") ||
		strings.HasPrefix(command, "query")
}

// secrets returns the strings that must not appear in any text, plain and URL-escaped.
func (c *Client) secrets() []string {
	c.mu.Lock()
	secrets := append(c.access.Load().proof.Secrets(), c.retired...)
	c.mu.Unlock()
	for _, s := range secrets {
		secrets = append(secrets, url.QueryEscape(s))
	}
	return secrets
}

// noteTime records how far the server's clock was ahead of ours when it answered.
func (c *Client) noteTime(resp *http.Response) {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	offset := date.Sub(c.clock.Now().Truncate(time.Second)) // the header has no fractions of a second
	c.clockOffset.Store(&offset)
}

// ClockOffset returns how far the server's clock is ahead of this machine's, to within some seconds. It comes from the
// Date header of the last answer; known is false before there was one.
func (c *Client) ClockOffset() (offset time.Duration, known bool) {
	if d := c.clockOffset.Load(); d != nil {
		return *d, true
	}
	return 0, false
}

// skewText returns an explanation that a large clock skew makes signed calls fail; "" if the skew is small. offset is
// how far the server's clock is ahead of this machine's.
func skewText(offset time.Duration) string {
	const tolerated = 5 * time.Minute
	if offset.Abs() <= tolerated {
		return ""
	}
	direction := "ahead of"
	if offset > 0 {
		direction = "behind"
	}
	return fmt.Sprintf("; this machine's clock is %s %s the server's, which alone can make signed calls fail: set "+
		"the clock right",
		offset.Abs().Round(time.Second), direction)
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	csapi "github.com/apache/cloudstack-go/v2/cloudstack"
)

// lane is one SDK client and the call that it works for. The SDK knows no
// contexts, so the context reaches the transport by way of the lane: a lane
// serves one call at a time and goes back to the client's pool after it.
// (Making an SDK client costs some hundred allocations, using a pooled one none.)
//
// The SDK never sees the API's address or keys: it builds forms and reads
// answers, the lane's RoundTrip does the rest. So nothing secret can be in an
// SDK error or in the URLs that net/http puts into errors.
type lane struct {
	client *Client
	sdk    *csapi.CloudStackClient
	custom *csapi.CustomService

	ctx  context.Context // of the call; carrying it is the purpose of the type
	opts callOptions
	err  *Error // of the transport; the SDK's wrapping of it is of no use
}

// callOptions are properties of one call.
type callOptions struct {
	tries int // at most; 0 means the default
}

func newLane(c *Client) *lane {
	l := &lane{client: c}
	l.sdk = csapi.NewClient("http://cloudstack.invalid"+apiPath, "sdk", "sdk", true,
		csapi.WithHTTPClient(&http.Client{Transport: l, Jar: noCookies{}}))
	l.custom, _ = l.sdk.Custom.(*csapi.CustomService)
	return l
}

// noCookies keeps the SDK from making and asking a cookie jar: the session has its own.
type noCookies struct{}

func (noCookies) SetCookies(*url.URL, []*http.Cookie) {}
func (noCookies) Cookies(*url.URL) []*http.Cookie     { return nil }

// withSDK runs one SDK call in ctx. Every error is an *Error.
func (c *Client) withSDK(ctx context.Context, command string, opts callOptions, call func(l *lane) error) error {
	l, ok := c.lanes.Get().(*lane)
	if !ok {
		l = newLane(c)
	}
	l.ctx, l.opts, l.err = ctx, opts, nil
	err := call(l)
	transportErr := l.err
	l.ctx, l.err = nil, nil
	c.lanes.Put(l)
	if transportErr != nil {
		return transportErr
	}
	if err != nil {
		var own *Error
		if errors.As(err, &own) {
			return own
		}
		// The answer arrived and was a success by its status, but cannot be read.
		return &Error{
			Kind: KindTransient, Command: command, HTTPCode: http.StatusOK,
			Text:            "cannot read the answer: " + sanitizeText(err.Error(), c.secrets()...),
			MayHaveHappened: !idempotent(command),
		}
	}
	return nil
}

// custom sends a command that the SDK has no (working) types for and decodes
// the answer's inner object into out.
func (c *Client) custom(ctx context.Context, command string, params map[string]string, opts callOptions, out any) error {
	return c.withSDK(ctx, command, opts, func(l *lane) error { return l.request(command, params, out) })
}

// request sends a command by its name with plain parameters, for what the SDK's own types do not have.
func (l *lane) request(command string, params map[string]string, out any) error {
	if l.custom == nil {
		return errors.New("the SDK has no custom service")
	}
	p := &csapi.CustomServiceParams{}
	for k, v := range params {
		p.SetParam(k, v)
	}
	return l.custom.CustomRequest(command, p, out)
}

// RoundTrip takes the form out of the SDK's request, whatever way it is sent,
// and performs the call the client's way.
func (l *lane) RoundTrip(req *http.Request) (*http.Response, error) {
	form, err := formOf(req)
	if err != nil {
		l.err = &Error{Kind: KindInvalid, Text: "cannot build the request"}
		return nil, l.err
	}
	body, apiErr := l.client.exchange(l.ctx, form, l.opts)
	if apiErr != nil {
		l.err = apiErr
		return nil, apiErr
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}, nil
}

// formOf reads the parameters of the SDK's request and drops what the client sets itself.
func formOf(req *http.Request) (url.Values, error) {
	query := req.URL.RawQuery
	if req.Body != nil {
		var b strings.Builder
		if _, err := io.Copy(&b, req.Body); err != nil {
			return nil, fmt.Errorf("reading the form: %w", err)
		}
		_ = req.Body.Close()
		if b.Len() > 0 {
			query = b.String()
		}
	}
	form, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the form is malformed")
	}
	for _, own := range []string{"apiKey", "signature", "signatureversion", "expires"} {
		form.Del(own)
	}
	return form, nil
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

// TestMetricsWithCertificate reads the metrics as Prometheus does with the ServiceMonitor of these values: the certificate is verified
// for the name that the monitor has, also after the Secret has another one, and the token of an account that may get /metrics is enough.
// Another account is refused.
func TestMetricsWithCertificate(t *testing.T) {
	t.Parallel()
	if programs.skip != "" {
		t.Skip(programs.skip)
	}
	e := newClusterEnv(t, nil)
	e.join(t, cp1)
	const name = "cloudstack-cloud-controller-manager-metrics.kube-system.svc"
	secret, verified := servingCertificate(t, name)
	secrets := e.Client.CoreV1().Secrets(secret.Namespace)
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.csccm(t, adminPassword+"\n", installArgs(e,
		"--set", "replicaCount=1", "--set", "servingCertificate.secretName="+secret.Name)...).want(t, 0)
	for _, args := range []string{ // docs/chart.md
		"create clusterrole metrics-reader --verb=get --non-resource-url=/metrics",
		"create clusterrolebinding metrics-reader --clusterrole=metrics-reader --serviceaccount=default:prometheus",
	} {
		if out, err := e.kubectl(t.Context(), "", strings.Fields(args)...); err != nil {
			t.Fatal(err, out)
		}
	}

	pods, err := e.pods(t.Context())
	if err != nil || len(pods) != 1 {
		t.Fatal(len(pods), err)
	}
	url := "https://" + net.JoinHostPort(pods[0].Status.PodIP, "10258") + "/metrics"
	tokens := map[string]string{}
	for account, says := range map[string]string{"prometheus": "", "other": "403"} {
		tokens[account] = e.token(t, account)
		text, err := get(t.Context(), &http.Client{Transport: withToken{tokens[account], verified}}, url)
		switch {
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %s", account, err, says)
		case says == "" && (err != nil || !strings.Contains(string(text), "cloudstack_api_requests_total")):
			t.Errorf("%s: %v", account, err)
		}
	}

	secret, verified = servingCertificate(t, name)
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually(t, "the new certificate", func(ctx context.Context) error {
		_, err := get(ctx, &http.Client{Transport: withToken{tokens["prometheus"], verified}}, url)
		return err
	})
}

// servingCertificate returns a Secret with a new certificate for a name, and a transport that verifies it.
func servingCertificate(t *testing.T, name string) (*corev1.Secret, *http.Transport) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		t.Fatal("no CA in the certificate")
	}
	verified := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}}
	t.Cleanup(verified.CloseIdleConnections)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-tls", Namespace: metav1.NamespaceSystem}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key, corev1.ServiceAccountRootCAKey: certificate},
	}, verified
}

// token makes an account in the namespace default and returns a token of it.
func (e *clusterEnv) token(t *testing.T, account string) string {
	t.Helper()
	accounts := e.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var token string
	e.eventually(t, "a token of "+account, func(ctx context.Context) error {
		made, err := accounts.CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = made.Status.Token
		}
		return err
	})
	return token
}

// withToken sends a bearer token with each request.
type withToken struct {
	token string
	next  http.RoundTripper
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.next.RoundTrip(r)
}

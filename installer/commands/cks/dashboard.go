// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/installer/report"
)

// dashboard is the name of the namespace, the Service and the ServiceAccount in CloudStack's documentation.
const dashboard = "kubernetes-dashboard"

// dashboardPath is the path of the dashboard below the API server, which proxies it.
const dashboardPath = "/api/v1/namespaces/" + dashboard + "/services/https:" + dashboard + ":/proxy/"

// Dashboard serves the web dashboard of a cluster on this machine until ctx ends. It works like kubectl proxy, but
// gives access to nothing else in the cluster. It calls opened with the URL of the dashboard.
func (s *Service) Dashboard(ctx context.Context, name string, port int, opened func(url string)) error {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return err
	}

	kube, config, err := s.inside(ctx, k)
	if err != nil {
		return report.Errorf(nextStep(k), "the dashboard of cluster %s cannot be reached: %w", k.Name, err)
	}

	if err := hasDashboard(ctx, kube, k.Name); err != nil {
		return err
	}

	handler, err := onlyDashboard(config)
	if err != nil {
		return err
	}

	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return &report.Error{Err: err, Fix: "choose another --port; 0 is any free one", Code: report.ExitUsage}
	}

	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()

	opened("http://" + l.Addr().String() + dashboardPath)
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}

	return nil
}

// hasDashboard returns an error if the cluster does not have the dashboard that CloudStack installs.
func hasDashboard(ctx context.Context, kube kubernetes.Interface, name string) error {
	_, err := kube.CoreV1().Services(dashboard).Get(ctx, dashboard, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return report.CheckFailed(
			"CloudStack installs the one that is in the ISO of the version; "+
				"https://kubernetes.io/docs/tasks/access-application-cluster/web-ui-dashboard/ says how to install one",
			"cluster %s has no dashboard: there is no Service %s/%s", name, dashboard, dashboard,
		)
	}
	return err
}

// onlyDashboard returns a handler that proxies requests from this machine to the dashboard, with the credentials of
// config. It refuses all other requests.
func onlyDashboard(config *rest.Config) (http.Handler, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, errUnusable
	}

	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, errUnusable
	}

	proxied := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Other Host headers may come from a foreign web page whose DNS name resolves to 127.0.0.1 (DNS rebinding).
		host, _, _ := net.SplitHostPort(r.Host)
		ours := host == "127.0.0.1" || host == "localhost"
		if !ours || !strings.HasPrefix(path.Clean(r.URL.Path)+"/", dashboardPath) {
			http.Error(w, http.StatusText(http.StatusForbidden), http.StatusForbidden)
			return
		}

		proxied.ServeHTTP(w, r)
	}), nil
}

// Package metrics serves a gateway's figures as Prometheus text over plain HTTP
// (docs/metrics.md), where METRICS in gateway.conf says so.
//
// It is no web server: it answers GET and HEAD of /metrics, one request a
// connection. net/http would cost ten times its flash. Who is on no network of
// the gateway gets no answer, and nothing that a peer does holds it for longer
// than a few seconds or takes more than some KiB. Figures are collected once for
// all who ask within a second.
package metrics

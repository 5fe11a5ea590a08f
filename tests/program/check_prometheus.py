#!/usr/bin/python3
"""check_prometheus.py PROGRAM SOURCE: a real Prometheus scrapes a `semel run`, and its values are those that were
counted; promtool accepts the metrics and the alert rules; every query of the dashboard and of the rules is understood,
and names only metrics that exist."""
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse

from check_admin import get, place, prepare, start, wait_for_sample
from program_kit import DEADLINE_S, Failed, expect, expect_true, main, publish_lines, wait_until, write

SOURCE = sys.argv.pop(2) if len(sys.argv) > 2 else "."
RULES = os.path.join(SOURCE, "packaging", "prometheus", "semel.rules.yml")
DASHBOARD = os.path.join(SOURCE, "packaging", "grafana", "semel.json")

SCRAPE = """\
global: {{ scrape_interval: 200ms, evaluation_interval: 200ms }}
rule_files: [{rules}]
scrape_configs:
  - job_name: semel
    static_configs: [{{ targets: ["{where}"] }}]
"""


def promtool(*arguments, stdin=None):
    done = subprocess.run(["promtool", *arguments], input=stdin, capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False)
    if done.returncode != 0:
        raise Failed(f"promtool {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def expressions():
    """(where, expression) of the dashboard, with its variables filled in."""
    with open(DASHBOARD, encoding="utf-8") as file:
        dashboard = json.load(file)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$inbox", ".*")
            expect_true("$" not in text, text)
            yield panel["title"], text


class Prometheus:
    """On a free port of the loopback, with its data in this directory."""

    def __init__(self, where):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        write("prometheus.yml", SCRAPE.format(rules=RULES, where=where))
        promtool("check", "config", "prometheus.yml")
        self.log = open("prometheus.log", "wb")  # closed with the process
        self.process = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log,
            stdin=subprocess.DEVNULL)

    def ask(self, path, **parameters):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            link.request("GET", f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
            return json.loads(link.getresponse().read())
        except (OSError, ValueError):
            return {"status": "unreachable"}
        finally:
            link.close()

    def values(self, query):
        answer = self.ask("query", query=query)
        return [(one["metric"], float(one["value"][1])) for one in answer.get("data", {}).get("result", [])]

    def wait_for(self, query, value):
        wait_until(lambda: [got for _, got in self.values(query)] == [value],
                   lambda: f"{query}: {self.values(query)}, not {value}; {self.ask('targets')}")

    def stop(self):
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        self.log.close()


def scraped():
    if not shutil.which("prometheus"):
        raise Failed("prometheus is not installed: dev/setup test")
    prepare()
    run = start()
    where = place(run)
    prometheus = Prometheus(where)
    try:
        publish_lines("orders", [f'{{"n": {n}}}' for n in range(5)], "--type", "paid", "--copies", "3")
        wait_for_sample(where, 'semel_inbox_messages_total{inbox="payments",handler="sql",outcome="duplicate"}', 10)
        wait_for_sample(where, 'semel_inbox_messages_total{inbox="parcels",handler="sql",outcome="processed"}', 5)

        promtool("check", "rules", RULES)
        text = get(where, "/metrics")[2]
        expect("what promtool says of the metrics", "", promtool("check", "metrics", stdin=text))

        prometheus.wait_for('semel_inbox_messages_total{inbox="payments",outcome="processed"}', 5)
        prometheus.wait_for('semel_inbox_messages_total{inbox="payments",outcome="duplicate"}', 10)
        prometheus.wait_for('semel_inbox_critical_time_seconds_count{inbox="payments"}', 5)
        prometheus.wait_for('up{job="semel"}', 1)
        prometheus.wait_for("semel_ready", 1)
        expect("it is scraped as OpenMetrics", 1, len(prometheus.values("semel_build_info")))

        known = set(re.findall(r"^# TYPE (\S+)", text, re.M))
        known |= {name + end for name in known for end in ("_bucket", "_sum", "_count")}
        with open(RULES, encoding="utf-8") as file:
            queries = re.sub(r"(?m)^ *(?:summary|description):.*", "", file.read())
        wanted = set(re.findall(r"\b(?:semel|process)_\w+", queries))
        for title, query in expressions():
            answer = prometheus.ask("query", query=query)
            expect(f"{title}: {query}: {answer}", "success", answer["status"])
            wanted |= set(re.findall(r"\b(?:semel|process)_\w+", query))
        expect("metrics that do not exist", set(), wanted - known)
        rules = prometheus.ask("rules")["data"]["groups"][0]["rules"]
        expect_true(len(rules) >= 8, rules)
        expect("rules that cannot be evaluated", [], [rule["name"] for rule in rules if rule.get("lastError")])
    finally:
        prometheus.stop()
    run.stop()


if __name__ == "__main__":
    main(scraped)

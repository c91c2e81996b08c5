"""The work of the s3 benchmarks by boto3: each line of JSON on the input is one piece of work, answered with a line when it is done."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config

AT_ONCE = 8


def main():
    setting = json.loads(sys.stdin.readline())
    client = boto3.client(
        "s3",
        endpoint_url=setting["endpoint"],
        aws_access_key_id=setting["access_key_id"],
        aws_secret_access_key=setting["secret_access_key"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, max_pool_connections=AT_ONCE),
    )
    bucket = setting["bucket"]

    def keys(prefix):
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def get(key):
        return client.get_object(Bucket=bucket, Key=key)["Body"].read()

    def write(work):
        body = work["content"].encode()
        for path in work["paths"]:
            client.put_object(Bucket=bucket, Key=work["prefix"] + path, Body=body)

    def write_many(work):
        body = work["content"].encode()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            put = lambda path: client.put_object(Bucket=bucket, Key=work["prefix"] + path, Body=body)
            return sum(1 for _ in pool.map(put, work["paths"]))

    def read(work):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return sum(len(body) for body in pool.map(get, [work["prefix"] + path for path in work["paths"]]))

    def search(work):
        pattern = work["pattern"].encode()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            bodies = pool.map(get, keys(work["prefix"]))
            return sum(line.count(pattern) > 0 for body in bodies for line in body.splitlines())

    works = {
        "write": write,
        "write_many": write_many,
        "read": read,
        "list": lambda work: len(keys(work["prefix"])),
        "search": search,
        "upload": lambda work: client.upload_file(work["file"], bucket, work["prefix"] + work["key"]),
        "download": lambda work: client.download_file(bucket, work["prefix"] + work["key"], os.devnull),
    }
    print("ready", flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        print(json.dumps(works[work["do"]](work)), flush=True)


main()

"""Another S3 tool beside Garret: answers each line of JSON on its input with one on its output, by way of boto3.

Content travels as text of one character per byte (latin-1). It ends when its input does.
"""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError


def connect(endpoint, access_key_id, secret_access_key):
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access_key_id,
        aws_secret_access_key=secret_access_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, connect_timeout=30, read_timeout=60, retries={"total_max_attempts": 1}),
    )


def make_bucket(client, bucket):
    client.create_bucket(Bucket=bucket)


def put(client, bucket, key, body, metadata):
    client.put_object(Bucket=bucket, Key=key, Body=body.encode("latin-1"), Metadata=metadata)


def create(client, bucket, key, body):
    client.put_object(Bucket=bucket, Key=key, Body=body.encode("latin-1"), IfNoneMatch="*")


def get(client, bucket, key):
    found = client.get_object(Bucket=bucket, Key=key)
    return {"body": found["Body"].read().decode("latin-1"), "metadata": found["Metadata"], "etag": found["ETag"]}


def delete(client, bucket, key):
    client.delete_object(Bucket=bucket, Key=key)


def keys(client, bucket, prefix):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [found["Key"] for page in pages for found in page.get("Contents", [])]


def uploads(client, bucket, prefix):
    found = client.list_multipart_uploads(Bucket=bucket, Prefix=prefix)
    return [upload["Key"] for upload in found.get("Uploads", [])]


OPERATIONS = {operation.__name__: operation for operation in (make_bucket, put, create, get, delete, keys, uploads)}


def answer(client, request):
    operation = OPERATIONS[request.pop("operation")]
    try:
        return {"done": operation(client, **request)}
    except ClientError as error:
        return {"code": error.response["Error"]["Code"], "message": str(error)}
    except (BotoCoreError, HTTPClientError) as error:
        return {"code": type(error).__name__, "message": str(error)}


def main():
    client = connect(*sys.argv[1:])
    for line in sys.stdin:
        print(json.dumps(answer(client, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
